#include "launcher/cluster/allocation.hpp"

#include <fmt/core.h>

#include <array>
#include <utility>

namespace ddprun {
namespace {

// The first that is set counts; the other is its old name.
constexpr std::array<const char*, 2> kListVariables = {"SLURM_JOB_NODELIST", "SLURM_NODELIST"};
constexpr const char* kNodeVariable = "SLURMD_NODENAME";

}  // namespace

HostList find_host_list(const Environment& environment, const std::string& host_name) {
    for (const char* variable : kListVariables) {
        const std::string* text = find_variable(environment, variable);
        if (text == nullptr || text->empty()) continue;
        auto expanded = expand_host_list(*text);
        if (const auto* wrong = std::get_if<std::string>(&expanded)) {
            return {
                .hosts = {},
                .position = {},
                .complaint = fmt::format("{} is passed over, and nodes are numbered by their host names: {}",
                                         variable, *wrong)};
        }
        HostList list{.hosts = std::get<std::vector<std::string>>(std::move(expanded)),
                      .position = {},
                      .complaint = {}};
        list.position = position_of(host_name, list.hosts);
        if (const std::string* node = find_variable(environment, kNodeVariable);
            node != nullptr && !list.position)
            list.position = position_of(*node, list.hosts);
        return list;
    }
    return {};
}

}  // namespace ddprun
