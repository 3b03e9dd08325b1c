#!/bin/sh
# Shows Doxygen the comments behind fields, enumerators and short functions, with the lines that
# continue them, as documentation.
sed -E -e '/\/\/ NOLINT|^ *}|^using /b' \
  -e 's|^([^/"]*[;,}{(](.*[^/ :])?) +// ([^/].*)$|\1  ///< \3|' \
  -e 's|^( *[A-Za-z_]\w*),? +// (.*)$|\1,  ///< \2|' \
  -e 's|^( {12,})// (.*)$|\1///< \2|' "$1"
