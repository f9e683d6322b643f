// This source alone has the insides of fmt, for all that includes <fmt/core.h>: it takes seconds to compile,
// and an installed program does not look for libfmt.so.
#define FMT_HEADER_ONLY
#include <fmt/format.h>

namespace ddprun {
inline namespace base {
namespace {

[[gnu::used]] const auto kept_for_others =
    static_cast<std::string (*)(fmt::string_view, fmt::format_args)>(fmt::vformat);

}  // namespace
}  // namespace base
}  // namespace ddprun
