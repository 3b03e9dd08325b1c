// Precompiled for the library's sources: what nearly all of them include. A source includes what it uses all the same.
// Sees: the rest of tensor/.
// Read next: ../../meson.build.
#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../dispatch.h"
#include "../tensor.h"
#include "../text.h"
