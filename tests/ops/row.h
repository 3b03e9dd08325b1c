// A row of the op tests: an op's call, written once, and what every kind of test needs for it.
//
// To add tests for an op, append a row to the file of its family in rows/:
//
//   row("celu", CALL(celu(x[0], o), const EluOptions& o))
//       .test({.oracle = elementwise([](double a) { return a > 0 ? a : 0.7 * expm1(a / 0.7); }),
//              .operands = {{.low = -4, .high = 4, .kinks = {0}}}},
//             {.alpha = 0.7})
//       .fuzz(unary, [](FuzzDraw& d) { return EluOptions{.alpha = d.real()}; })
//       .golden({"", "F.celu", "real(3, 4)"})
//       .golden({"alpha", "F.celu(x0, 0.5)", "real(3, 4)"}, {.alpha = 0.5});
//
// - test: cases of the generated tests (cases.h): values, gradients, dtypes, strides, devices.
// - fuzz: how the argument fuzzer draws the call (fuzz.h).
// - golden: PyTorch's expression for a stored result (../golden/golden.h, ../golden/make.py).
// - smoke: a line of the smoke test on a GPU (../gpu/smoke/row.h), for ops with a kernel of their
//   own.
// What follows the first braces are the call's arguments behind the operands, all of their default
// if they are left out. A registered op without test or fuzz, and a differentiable one without
// golden, fails the suite.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <mezzo.h>

#include "../golden/golden.h"
#include "../gpu/smoke/row.h"
#include "cases.h"
#include "fuzz.h"

namespace rows {

using cases::Array, cases::Case, cases::Operand, cases::Oracle, cases::elementwise, cases::moved;
using fuzz::broadcast, fuzz::count, fuzz::length_along, fuzz::none_negative;
using fuzz::FuzzDraw, fuzz::Expected, fuzz::Sizes, fuzz::Trial, fuzz::Wide, fuzz::kAny;
using fuzz::window_places, fuzz::gives, fuzz::gives_both, fuzz::reduced, fuzz::refused,
    fuzz::resized, fuzz::resolved, fuzz::sizes;
using mezzo::Shape, mezzo::Tensor;
using smoke::Maker;
using Tensors = std::vector<Tensor>;

/** Returns the results of a call as a list. */
inline Tensors results(const Tensor& y) { return {y}; }
inline Tensors results(const mezzo::ValuesAndIndices& y) { return {y.values, y.indices}; }
inline Tensors results(Tensors y) { return y; }

/** Returns operand i, or an undefined tensor where there are fewer. */
inline Tensor optional(const Tensors& x, std::size_t i) { return i < x.size() ? x[i] : Tensor{}; }

/** A call on operands x; what follows the expression declares its other arguments. */
#define CALL(expression, ...)                       \
  [](const Tensors& x __VA_OPT__(, ) __VA_ARGS__) { \
    (void)x;                                        \
    return rows::results(expression);               \
  }

/** A case of the golden files. The part "op/variant" of its keys is the op's name and this. */
struct Golden {
  std::string variant;   // empty for the first case of an op
  std::string torch;     // of operands x0, x1, ..., or a function of all of them
  std::string operands;  // of the functions in ../golden/golden.py
  double factor = 1;     // multiplies the tolerances
};

/** Lines of the smoke test, one for each dtype. */
struct Smoke {
  std::string name;  // "%" in it stands for the dtype, which else follows
  std::vector<mezzo::DType> dtypes;
  std::function<Tensors(const Maker& make, mezzo::DType dtype)> operands;
  double passes = 0;  // one call moves this number of arrays of the first
                      // floating operand's size
  double factor = 1;  // multiplies the tolerance
  smoke::Expected expected = smoke::Expected::close;
  bool backward = false;                      // of the gradients for an incoming one that is drawn
  bool by_library = false, may_vary = false;  // as in smoke::Row
  std::optional<std::size_t> leaf = {};       // of backward: the only operand with a gradient
  std::optional<mezzo::MemoryFormat> format = {};  // of operands with four dimensions
  std::function<double(const Tensors& x)> bytes = {}, flops = {};  // of one call
};

/** Registers the rows of a file before the tests run. */
struct Rows {
  /** `golden` is the golden file of these rows. */
  Rows(const char* golden, void (*add)());
};

/** What a fuzzer's call draws: operands that usually broadcast. The second may have another dtype
 *  than the first. */
enum class Broadcasting { unary = 1, binary, ternary };
inline constexpr Broadcasting unary = Broadcasting::unary, binary = Broadcasting::binary,
                              ternary = Broadcasting::ternary;
Tensors draw_operands(FuzzDraw& d, Broadcasting operands);

/** Expects the shape that operands broadcast to; in place, that of the first or an error. */
Expected broadcast_result(const Tensors& x, bool in_place = false);

/** Draws x and a dimension, for results of x's shape. */
inline constexpr auto along = [](FuzzDraw& d, const auto& call) {
  const Tensor x = d.tensor();
  const std::int64_t dim = d.dim(x.dim());
  return Trial{call({x}, dim), resolved(dim, x.shape().size()) ? gives(sizes(x)) : refused()};
};

void add_golden(const std::string& op, const Golden& golden,
                std::function<Tensors(const Tensors& x)> call);
void add_smoke(const Smoke& line, const std::function<Tensors(const Tensors& x)>& call);

/** A call with arguments behind its operands. Its functions add tests and return the row. */
template <class... Args> class Row {
 public:
  using Call = std::function<Tensors(const Tensors& x, const Args&... args)>;

  Row(std::string op, Call call) : op_(std::move(op)), call_(std::move(call)) {}

  /** Adds the form that overwrites x[0]. fuzz() calls both forms. */
  Row& in_place(Call call) {
    in_place_ = std::move(call);
    return *this;
  }

  /** Adds a case; `c` may have a call of its own, which wraps the op in others. */
  Row& test(Case c, const Args&... args) {
    c.op = op_;
    if (!c.call) c.call = bound(call_, args...);
    cases::add_case(std::move(c));
    return *this;
  }
  Row& test(Case c)
  requires(sizeof...(Args) > 0)
  {
    return test(std::move(c), Args{}...);
  }

  /** Adds a case whose first operand is prepare(x[0]). */
  Row& test_of(Tensor (*prepare)(const Tensor& x), Case c, const Args&... args) {
    c.call = [=, call = bound(call_, args...)](Tensors x) {
      x[0] = prepare(x[0]);
      return call(x);
    };
    c.single_op = false;
    return test(std::move(c), args...);
  }

  /** Adds a case of an elementwise function of one operand. */
  Row& test(double (*f)(double), Operand operand = {}) {
    return test(Case{.oracle = elementwise(f), .operands = {std::move(operand)}}, Args{}...);
  }

  /** Adds calls on operands that broadcast; `draw` draw the arguments, one each. */
  template <class... Draws>
  Row& fuzz(Broadcasting operands, Draws... draw)
  requires(sizeof...(Draws) == sizeof...(Args))
  {
    const auto add = [&](const Call& call, bool in_place) {
      fuzz::add_row(op_, [=](FuzzDraw& d) {
        Tensors x = draw_operands(d, operands);
        const std::tuple<Args...> args{draw(d)...};
        if (in_place) x[0] = x[0].detach();
        return Trial{
            [=] { return std::apply([&](const Args&... a) { return call(x, a...); }, args); },
            broadcast_result(x, in_place)};
      });
    };
    add(call_, false);
    if (in_place_) add(in_place_, true);
    return *this;
  }

  /** A call whose arguments the fuzzer has drawn. */
  struct Drawn {
    Call call;
    bool in_place;
    std::function<Tensors()> operator()(Tensors x, const Args&... args) const {
      if (in_place) x[0] = x[0].detach();
      return [c = call, x = std::move(x), ... args = args] { return c(x, args...); };
    }
  };

  /** Adds calls that `draw(d, call)` draws: it returns Trial{call(operands, arguments...),
   *  expected}. */
  template <class F>
  Row& fuzz(F draw)
  requires std::is_invocable_r_v<Trial, F, FuzzDraw&, const Drawn&>
  {
    const auto add = [&](Drawn call) {
      fuzz::add_row(op_, [draw, call = std::move(call)](FuzzDraw& d) { return draw(d, call); });
    };
    add({call_, false});
    if (in_place_) add({in_place_, true});
    return *this;
  }

  Row& golden(const Golden& g, const Args&... args) {
    add_golden(op_, g, bound(call_, args...));
    return *this;
  }
  Row& golden(const Golden& g)
  requires(sizeof...(Args) > 0)
  {
    return golden(g, Args{}...);
  }

  /** Adds golden cases of torch's function of the op's name on numbers between low and high, of all
   *  forms that the row has. */
  Row& golden_between(double low, double high) {
    const std::string bounds = mezzo::str(", low=", low, ", high=", high, ")");
    golden({"", "torch." + op_, "real(3, 4" + bounds});
    if (in_place_)
      golden_in_place({"in place", "torch.Tensor." + op_ + "_(x0 * 1)", "real(5" + bounds});
    return *this;
  }

  /** Adds a golden case of the form in place, on a copy of the first operand. */
  Row& golden_in_place(const Golden& g, const Args&... args) {
    add_golden(op_, g, [call = bound(in_place_, args...)](Tensors x) {
      x[0] = x[0] * 1;
      return call(x);
    });
    return *this;
  }
  Row& golden_in_place(const Golden& g)
  requires(sizeof...(Args) > 0)
  {
    return golden_in_place(g, Args{}...);
  }

  Row& smoke(const Smoke& line, const Args&... args) {
    add_smoke(line, bound(call_, args...));
    return *this;
  }
  Row& smoke(const Smoke& line)
  requires(sizeof...(Args) > 0)
  {
    return smoke(line, Args{}...);
  }

  const std::string& op() const { return op_; }
  const Call& call() const { return call_; }

 private:
  static std::function<Tensors(const Tensors& x)> bound(const Call& call, const Args&... args) {
    return [=](const Tensors& x) { return call(x, args...); };
  }

  std::string op_;
  Call call_, in_place_;
};

namespace detail {
template <class F, class... Args>
Row<std::decay_t<Args>...> make_row(std::string op, F call,
                                    Tensors (F::*)(const Tensors&, Args...) const) {
  return {std::move(op), call};
}
}  // namespace detail

/** Returns the row of an op (its registered name) and a call that CALL writes. */
template <class F> auto row(std::string op, F call) {
  return detail::make_row(std::move(op), call, &F::operator());
}

}  // namespace rows
