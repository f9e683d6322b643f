// The one include of Boost.Process v2: its headers of 1.81 use <boost/optional.hpp> and the type traits
// without including them when std::filesystem is chosen, and it must be chosen the same way everywhere.
#pragma once

#define BOOST_PROCESS_USE_STD_FS 1

#include <boost/optional.hpp>
#include <boost/type_traits.hpp>
// The order matters: the headers below lean on the two above.
#include <boost/process/v2/process.hpp>
