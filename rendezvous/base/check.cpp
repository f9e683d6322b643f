#include "rendezvous/base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace ddprun {
inline namespace base {

void check(bool condition, std::string_view what, const boost::source_location& where) {
    if (condition) return;
    std::fprintf(stderr, "ddprun: internal error: %.*s (%s:%u in %s)\n", static_cast<int>(what.size()),
                 what.data(), where.file_name(), static_cast<unsigned>(where.line()), where.function_name());
    std::abort();
}

}  // namespace base
}  // namespace ddprun
