// Precompiled for the tests: what nearly all of them include. A test includes what it uses all the same.
// Sees: mezzo.h, the rest of this folder.
// Read next: ../meson.build.
#include <mezzo.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "catch.h"
#include "throws.h"
