#include "rounding.h"

#include "common_dtype.h"

namespace mezzo {

MZ_ROUNDINGS(MZ_DEFINE_FUNCTION)

}  // namespace mezzo
