// Precompiled header of the emulated kernels: what nearly all of them include. Sources include what
// they use nevertheless.
#include "../cuda.h"

#include <algorithm>
#include <limits>

#include "../../../cuda/attach.h"
#include "../../../cuda/kernels/items.h"
#include "../../../tensor/math/math.h"
