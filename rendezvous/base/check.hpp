// check() stops the program when one of ddprun's own invariants does not hold.
//
// Only bugs in ddprun are reported so, in release builds too. Bad input and failures of the world are
// reported otherwise (see error.hpp). Callable from any thread; never returns if the condition is false.
#pragma once

#include <boost/assert/source_location.hpp>
#include <string_view>

namespace ddprun {
inline namespace base {

// Prints the place and `what` to stderr and aborts unless `condition` holds.
void check(bool condition, std::string_view what,
           const boost::source_location& where = BOOST_CURRENT_LOCATION);

}  // namespace base
}  // namespace ddprun
