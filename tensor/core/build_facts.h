// How the library was built. Defined by build_facts.cpp.in.
#pragma once

namespace mezzo {

/** Returns build type, options and compiler arguments. */
const char* build_flags();
/** Returns what `git describe` said, or "unknown". */
const char* build_commit();

}  // namespace mezzo
