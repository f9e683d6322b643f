#include "launcher/list_text.hpp"

namespace ddprun {
namespace {

constexpr std::string_view kAroundEntries = " \t";

}  // namespace

std::string_view trimmed(std::string_view text) {
    const auto first = text.find_first_not_of(kAroundEntries);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(kAroundEntries) - first + 1);
}

}  // namespace ddprun
