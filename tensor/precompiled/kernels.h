// Precompiled for tensor/cpu: what most kernels include. A source includes what it uses all the same.
// Sees: the rest of tensor/.
// Read next: ../../meson.build.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "../compute_type.h"
#include "../cpu/block_io.h"
#include "../cpu/simd.h"
#include "../dispatch.h"
#include "../math.h"
#include "../parallel.h"
#include "../tensor.h"
