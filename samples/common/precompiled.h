// Precompiled header with the common includes of the samples. Sources still include what they use.
#include <mezzo.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>
#include <vector>
