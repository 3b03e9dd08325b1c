#!/bin/sh
# Shows Doxygen the comments behind fields, enumerators and short functions as documentation.
sed -E -e '/\/\/ NOLINT|^ *}/b' \
  -e 's|^([^/"]*[;,}{(](.*[^/ :])?) +// ([^/].*)$|\1  ///< \3|' \
  -e 's|^( *[A-Za-z_]\w*),? +// (.*)$|\1,  ///< \2|' "$1"
