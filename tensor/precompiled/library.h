// Precompiled header of the library: what nearly all sources include. Sources include what they use
// nevertheless.
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

#include "../core/dispatch.h"
#include "../core/tensor.h"
#include "../text/text.h"
