// Precompiled for the samples: what nearly all of them include. A source includes what it uses all the same.
// Sees: mezzo.h.
// Read next: ../meson.build.
#include <mezzo.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>
#include <vector>
