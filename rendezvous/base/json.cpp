// Boost.JSON is compiled here once; everything else includes only its declarations.
#include <boost/json/src.hpp>
