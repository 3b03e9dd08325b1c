// Precompiled header of tensor/cpu: what most kernels include. Sources include what they use
// nevertheless.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "../core/compute_type.h"
#include "../core/dispatch.h"
#include "../core/tensor.h"
#include "../cpu/block_io.h"
#include "../cpu/simd.h"
#include "../device/parallel.h"
#include "../math/math.h"
