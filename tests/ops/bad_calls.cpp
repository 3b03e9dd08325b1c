// Bad calls generated from the case list: one operand at a time gets a wrong shape, dtype or value.
// Each call succeeds or throws a mezzo::Error that names the operand, and leaves every operand
// unchanged. On a device the text is the CPU's.
#include "../support/catch.h"
#include "samples.h"

using namespace mezzo;
using namespace cases;

namespace {

enum class Fault {
  more_dimensions,
  fewer_dimensions,
  other_sizes,
  last_size,
  first_size,
  no_elements,
  other_category,
  mixed_precision,
  out_of_range,
  other_device,
  undefined,
};

constexpr std::pair<Fault, const char*> kFaults[] = {
    {Fault::more_dimensions, "two more dimensions"},
    {Fault::fewer_dimensions, "no dimensions"},
    {Fault::other_sizes, "other sizes"},
    {Fault::last_size, "the last size"},
    {Fault::first_size, "the first size"},
    {Fault::no_elements, "no elements"},
    {Fault::other_category, "another category"},
    {Fault::mixed_precision, "f16 beside f32"},
    {Fault::out_of_range, "values out of range"},
    {Fault::other_device, "another device than the others"},
    {Fault::undefined, "an undefined tensor"},
};

/** Returns ones (or true) of the given shape in the dtype of x. */
Tensor like(const Tensor& x, const Shape& shape) {
  return full(shape, 1, {.dtype = x.dtype(), .device = x.device()});
}

/** Returns x with the fault; undefined where x cannot have it, and for Fault::undefined. */
Tensor with_fault(Fault fault, const Operand& operand, const Tensor& x) {
  Shape shape = x.shape();
  switch (fault) {
    case Fault::more_dimensions: return x.unsqueeze(0).unsqueeze(-1).clone();
    case Fault::fewer_dimensions: return x.dim() == 0 ? Tensor{} : like(x, Shape{});
    case Fault::other_sizes:
      for (int i = 0; i < shape.rank(); ++i) shape[i] += 2 + i;
      return x.dim() == 0 ? Tensor{} : like(x, shape);
    case Fault::last_size:
      if (x.dim() == 0) return {};
      ++shape[shape.rank() - 1];
      return like(x, shape);
    case Fault::first_size:
      if (x.dim() < 2) return {};
      ++shape[0];
      return like(x, shape);
    case Fault::no_elements:
      if (x.dim() == 0) return {};
      shape[shape.rank() - 1] = 0;
      return like(x, shape);
    case Fault::other_category: return x.to(is_floating(x.dtype()) ? i64 : f32);
    case Fault::mixed_precision: return is_floating(x.dtype()) ? x.to(f16) : Tensor{};
    case Fault::out_of_range: return operand.integers ? x + 100000 : Tensor{};
    case Fault::other_device: return test_device() == cpu || x.dim() == 0 ? Tensor{} : x.to(cpu);
    case Fault::undefined: break;
  }
  return {};
}

/** Returns the sample best suited for faults: all operands have dimensions and elements. */
std::size_t sample_for(const Case& c) {
  const auto& samples = samples_of(c);
  for (std::size_t s = 0; s < samples.size(); ++s) {
    bool fit = true;
    for (const Shape& shape : samples[s]) {
      fit = fit && shape.rank() > 0;
      for (const std::int64_t size : shape) fit = fit && size > 1;
    }
    if (fit) return s;
  }
  return 0;
}

struct Tally {
  int calls = 0, refused = 0;
};

/** Synchronises with the device, which throws the index errors that its kernels recorded. A tensor
 *  without elements would not synchronise. */
void wait() { static_cast<void>(zeros({1}, {.device = test_device()}).to(cpu)); }

/** Returns the index error that the device recorded before the call failed for another reason. The
 *  CPU would have thrown it first. */
std::string pending_index_error() {
  try {
    wait();
  } catch (const IndexError& e) {
    return e.what();
  }
  return "";
}

/** Makes a call. Returns "" if it ran or threw a mezzo::Error, whose text goes to `message`; else
 *  describes the fault. */
std::string attempt(const Case& c, const std::vector<Tensor>& x, std::string& message) {
  try {
    for (const Tensor& y : c.call(x)) y.detach().to(cpu);
    wait();
  } catch (const Error& e) {
    const std::string before = pending_index_error();
    message = before.empty() ? e.what() : before;
    return message.find(": ") == std::string::npos ? "no text of the grammar: " + message : "";
  } catch (const std::exception& e) {
    return str("an exception of another type: ", e.what());
  }
  return "";
}

/** Returns how many operands a text shows by their shapes. */
int shapes_in(const std::string& text) {
  int count = 0;
  for (std::size_t at = text.find('['); at != std::string::npos; at = text.find('[', at + 1))
    ++count;
  return count;
}

/** Returns whether a text reports a mismatch of operands; it must then show two. */
bool about_several(const std::string& text) {
  for (const char* words : {"do not broadcast", "dtypes differ", "shapes differ"})
    if (text.find(words) != std::string::npos) return true;
  return false;
}

bool names_both_devices(const std::string& text) {
  for (const std::string& words :
       {std::string("different devices"), "@" + str(test_device()), "@" + str(cpu)})
    if (text.find(words) == std::string::npos) return false;
  return true;
}

/** Returns a text of the device with the CPU's device name. */
std::string without_device(std::string text) {
  const std::string there = "@" + str(test_device());
  for (std::size_t at = text.find(there); at != std::string::npos; at = text.find(there))
    text.replace(at, there.size(), "@cpu");
  return text;
}

/** Checks that the CPU rejects what the device rejected, with the same text. Cases that create
 *  operands themselves have them on the device and are not compared. */
void compare_with_cpu(const Case& c, std::vector<Tensor> x, const std::string& message) {
  for (Tensor& t : x)
    if (t.defined()) t = t.to(cpu);
  std::string here;
  CHECK(attempt(c, x, here) == "");
  const bool is_mixed = here.find("@" + str(test_device())) != std::string::npos;
  if (!is_mixed) CHECK(without_device(message) == here);
}

/** Returns whether the operand is optional: without it the call means something else and the others
 *  may not fit. */
bool may_be_left_out(const Case& c, std::size_t k) {
  // An undefined index selects the whole dimension.
  if (c.op == "index" || c.op == "index_put") return k > 0;
  return c.op == "lstm" && c.variant.starts_with("projected");
}

void check_fault(const Case& c, std::size_t k, Fault fault, Tally& tally) {
  const std::size_t s = sample_for(c);
  std::vector<Tensor> x = to_tensors(c, draw(c, s, false), f32);
  const Tensor faulty = with_fault(fault, c.operands[k], x[k]);
  if (!faulty.defined() && fault != Fault::undefined) return;
  x[k] = faulty;
  std::vector<Tensor> copies;
  std::vector<std::uint32_t> versions;
  for (const Tensor& t : x) {
    copies.push_back(t.defined() ? t.clone() : Tensor{});
    versions.push_back(t.defined() ? t.impl()->storage->version() : 0);
  }
  ++tally.calls;
  std::string message;
  const std::string complaint = attempt(c, x, message);
  INFO("threw: " << message);
  CHECK(complaint == "");
  if (!(test_device() == cpu) && message.find("no CUDA kernel") == std::string::npos) {
    if (fault == Fault::other_device)
      CHECK((x.size() == 1 || c.op == "copy" || names_both_devices(message)));
    else
      compare_with_cpu(c, x, message);
  }
  if (message.empty()) return;
  ++tally.refused;
  const bool names_undefined = message.find("undefined") != std::string::npos;
  // An undefined operand has no shape or dtype, so the text must not mention one.
  if (fault == Fault::undefined && !may_be_left_out(c, k))
    CHECK(message.find(" is undefined") != std::string::npos);
  CHECK((!about_several(message) || names_undefined || shapes_in(message) >= 2));
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (!x[i].defined()) continue;
    CHECK(same_bits(x[i], copies[i]));
    CHECK(x[i].impl()->storage->version() == versions[i]);
  }
}

}  // namespace

TEST_CASE("calls with one bad operand run or throw a mezzo::Error, and change nothing",
          "[ops][bad]") {
  Tally tally;
  for (const auto& [fault, text] : kFaults)
    for (const Case& c : all_cases())
      for (std::size_t k = 0; k < c.operands.size(); ++k) {
        INFO(c.op << " (" << c.variant << "), operand " << k << " with " << text);
        check_fault(c, k, fault, tally);
      }
  CHECK(tally.calls >= 2000);
  CHECK(tally.refused >= 600);
}
