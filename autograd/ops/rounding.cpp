#include "rounding.h"

#include "../../tensor/core/elementwise.h"
#include "../../tensor/core/elementwise_info.h"

namespace mezzo {

Tensor abs(const Tensor& x) { return apply<op::Abs>(x); }
Tensor ceil(const Tensor& x) { return apply<op::Ceil>(x); }
Tensor floor(const Tensor& x) { return apply<op::Floor>(x); }
Tensor frac(const Tensor& x) { return apply<op::Frac>(x); }
Tensor neg(const Tensor& x) { return apply<op::Neg>(x); }
Tensor round(const Tensor& x) { return apply<op::Round>(x); }
Tensor sign(const Tensor& x) { return apply<op::Sign>(x); }
Tensor trunc(const Tensor& x) { return apply<op::Trunc>(x); }

const Tensor& abs_(const Tensor& self) { return apply_in_place<op::Abs>({}, self); }
const Tensor& ceil_(const Tensor& self) { return apply_in_place<op::Ceil>({}, self); }
const Tensor& floor_(const Tensor& self) { return apply_in_place<op::Floor>({}, self); }
const Tensor& frac_(const Tensor& self) { return apply_in_place<op::Frac>({}, self); }
const Tensor& neg_(const Tensor& self) { return apply_in_place<op::Neg>({}, self); }
const Tensor& round_(const Tensor& self) { return apply_in_place<op::Round>({}, self); }
const Tensor& sign_(const Tensor& self) { return apply_in_place<op::Sign>({}, self); }
const Tensor& trunc_(const Tensor& self) { return apply_in_place<op::Trunc>({}, self); }

}  // namespace mezzo
