#include "launcher/cluster/cluster_view.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "launcher/cluster/host_list.hpp"
#include "launcher/harmless_text.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline launch {
namespace {

constexpr std::size_t kMaxNumberShown = 80;

}  // namespace

const std::string* text_of(const ClusterView& view, std::string_view variable) {
    if (variable.empty()) return nullptr;
    const std::string* text = find_variable(view.environment, variable);
    return text != nullptr && text->empty() ? nullptr : text;
}

std::optional<int> number_of(const ClusterView& view, std::string_view variable, int lowest) {
    const std::string* text = text_of(view, variable);
    return text != nullptr ? whole_number<int>(*text, lowest) : std::nullopt;
}

std::string wrong_number(const ClusterView& view, std::string_view variable, int lowest) {
    const std::string* text = text_of(view, variable);
    if (text == nullptr || number_of(view, variable, lowest)) return {};
    return fmt::format("{}={} is no whole number from {} on", variable, harmless_line(*text, kMaxNumberShown),
                       lowest);
}

std::optional<Named> first_of(const ClusterView& view, const std::vector<std::string_view>& variables) {
    for (const std::string_view variable : variables) {
        if (const std::string* text = text_of(view, variable)) return Named{std::string(variable), *text};
    }
    return std::nullopt;
}

bool is_own_name(const ClusterView& view, const std::string& name) {
    return position_of(view.host_name, {name}).has_value() ||
           std::find(view.addresses.begin(), view.addresses.end(), name) != view.addresses.end();
}

std::optional<int> own_position(const ClusterView& view, const std::vector<std::string>& hosts) {
    if (const auto position = position_of(view.host_name, hosts)) return position;
    std::optional<int> found;
    for (std::size_t place = 0; place < hosts.size(); ++place) {
        const bool is_ours =
            std::find(view.addresses.begin(), view.addresses.end(), hosts[place]) != view.addresses.end();
        if (!is_ours) continue;
        if (found) return std::nullopt;
        found = static_cast<int>(place);
    }
    return found;
}

}  // namespace ddprun::inline launch
