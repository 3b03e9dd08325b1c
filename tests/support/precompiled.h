// Precompiled header of the tests: what nearly all of them include. Each test still includes what
// it uses.
#include <mezzo.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "catch.h"
#include "throws.h"
