#include "rounding.h"

#include "one_operand.h"

namespace mezzo {

MZ_ROUNDINGS(MZ_DEFINE_FUNCTION)

}  // namespace mezzo
