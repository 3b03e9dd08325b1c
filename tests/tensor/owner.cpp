// The pointers of public headers: Owner and Shared.
#include "../../tensor/core/pointers.h"

#include <utility>

#include "../support/catch.h"

using namespace mezzo;

namespace {

/** Counts its living objects. */
struct Counted {
  static inline int alive = 0;
  int value;
  explicit Counted(int number) : value(number) { ++alive; }
  Counted(const Counted&) = delete;
  ~Counted() { --alive; }
};

struct Padding {
  virtual ~Padding() = default;
  double room = 0;
};
/** Its Counted does not begin where it begins itself. */
struct Derived final : Padding, Counted {
  using Counted::Counted;
};

}  // namespace

TEST_CASE("an Owner destroys its object once, and a move passes it on", "[tensor]") {
  {
    Owner<Counted> a(new Counted(1)), b;
    CHECK(a);
    CHECK_FALSE(b);
    b = std::move(a);
    CHECK_FALSE(a);
    CHECK(b->value == 1);
    b = Owner<Counted>(new Counted(2));
    CHECK(Counted::alive == 1);
    Owner<Counted>& same = b;
    b = std::move(same);
    CHECK((*b).value == 2);
    const Owner<Counted> c(std::move(b));
    CHECK(c.get()->value == 2);
    b.reset(new Counted(3));
    CHECK(Counted::alive == 2);
    b.reset();
    CHECK(Counted::alive == 1);
  }
  CHECK(Counted::alive == 0);
}

TEST_CASE("a Shared counts with the std::shared_ptr it comes from", "[tensor]") {
  {
    auto source = std::make_shared<Derived>(4);
    Shared<const Counted> first = std::static_pointer_cast<const Counted>(source);
    const Shared<Counted> second = std::static_pointer_cast<Counted>(source);
    CHECK(first.get() == source.get());
    CHECK(second->value == 4);
    CHECK(source.use_count() == 3);
    const std::shared_ptr<Counted> back = second.ptr();
    CHECK(back.get() == source.get());
    CHECK(source.use_count() == 4);
    source.reset();
    first.reset();
    CHECK_FALSE(first);
    CHECK(Counted::alive == 1);
    const Shared<Counted> upcast = std::make_shared<Derived>(5);
    CHECK(upcast->value == 5);
  }
  CHECK(Counted::alive == 0);
}
