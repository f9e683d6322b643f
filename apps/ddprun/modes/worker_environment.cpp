#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string_view>

#include "apps/ddprun/modes/worker_environment.hpp"
#include "launcher/agent/worker_placement.hpp"
#include "launcher/features/features.hpp"
#include "launcher/harmless_text.hpp"
#include "launcher/plan/own_address.hpp"
#include "launcher/secret_text.hpp"
#include "rendezvous/control/control_message.hpp"

namespace ddprun {
inline namespace app {
namespace {

// The inputs from which a worker's environment is made.
struct Inputs {
    LaunchOptions options;
    RoundReady round;
    WorkerStation station;
};

// A LateInput is known only when the job runs: what --explain says of the variables that follow from it, and
// a change of it by which they are found.
struct LateInput {
    std::string when;
    std::function<void(Inputs&)> change;
};

constexpr const char* kAnother = "another";

// Says what only several nodes together know.
void add_of_nodes(const LaunchOptions& options, std::vector<LateInput>& late) {
    const bool is_address_known = !options.own_address.address.empty();
    late.push_back({"known when the nodes have met", [is_address_known](Inputs& inputs) {
                        RoundReady& round = inputs.round;
                        for (int* number : {&round.group_rank, &round.group_world_size, &round.base_rank,
                                            &round.world_size, &round.role_base_rank, &round.role_world_size})
                            ++*number;
                        if (!is_address_known) inputs.station.address = kAnother;
                    }});
    if (!is_address_known)
        late.push_back({"the interface that reaches node 0, unless that is loopback",
                        [](Inputs& inputs) { name_interface(inputs.options.environment, kAnother); }});
    if (options.master_ports > 1)
        late.push_back({fmt::format("{}, or the next of {} ports that is free", options.master.port,
                                    options.master_ports),
                        [](Inputs& inputs) { ++inputs.options.master.port; }});
    if (options.etcd)
        late.push_back({"known when the host is elected", [](Inputs& inputs) {
                            inputs.options.master = {kAnother, 1};
                        }});
}

std::vector<LateInput> late_inputs(const LaunchOptions& options) {
    const bool is_alone = options.nnodes == 1;
    std::vector<LateInput> late;
    late.push_back(
        {"made at the start", [](Inputs& inputs) { inputs.round.job_id = inputs.station.life = kAnother; }});
    late.push_back({"when the job starts", [](Inputs& inputs) { ++inputs.round.start_unix_s; }});
    late.push_back({is_alone ? "a key of the round" : "a key of the round, where the job has a secret",
                    [](Inputs& inputs) { inputs.station.mesh_key.emplace(); }});
    if (options.output.files)
        late.push_back(
            {"a file in the log folder", [](Inputs& inputs) { inputs.station.error_file = kAnother; }});
    if (is_alone && options.master.port == 0)
        late.push_back(
            {options.port_range ? "a free port of " + to_string(*options.port_range) : "a free port",
             [](Inputs& inputs) { ++inputs.options.master.port; }});
    if (!is_alone) add_of_nodes(options, late);
    for (LateVariables& one : late_variables(options))
        late.push_back({std::move(one.when),
                        [added = std::move(one.added)](Inputs& inputs) { inputs.station.added = added; }});
    return late;
}

Environment environment_of(const Inputs& inputs, int local_rank) {
    return place_worker(inputs.options, inputs.round, local_rank, inputs.station).environment;
}

// The first round. What several nodes decide is changed as a late input.
RoundReady first_round(const LaunchOptions& options) {
    RoundReady round;
    const int workers = static_cast<int>(options.workers.size());
    round.group_world_size = options.nnodes;
    round.world_size = round.role_world_size = workers;
    round.max_restarts = options.restarts.max_restarts;
    return round;
}

bool is_before(const EnvironmentChange& one, const EnvironmentChange& other) { return one.name < other.name; }

}  // namespace

std::vector<EnvironmentChange> changes_between(const Environment& inherited, const Environment& environment) {
    std::vector<EnvironmentChange> changes;
    for (const auto& [name, value] : environment) {
        const std::string* old = find_variable(inherited, name);
        if (old == nullptr || *old != value) changes.push_back({name, value, {}});
    }
    for (const auto& [name, value] : inherited) {
        if (!environment.contains(name)) changes.push_back({name, std::nullopt, {}});
    }
    std::sort(changes.begin(), changes.end(), is_before);
    return changes;
}

// 1. The environment is made as the agent makes it, of what is known now.
// 2. For each input that is not known yet it is made once more, with another value of that input.
// 3. What differs then follows from that input, and is shown with its words in place of a value.
std::vector<EnvironmentChange> changes_of_worker(LaunchOptions options, const Environment& inherited,
                                                 int local_rank, const std::string& host) {
    const bool is_alone = options.nnodes == 1;
    if (!is_alone) name_interface(options.environment, options.own_address.interface);
    Inputs known{.options = std::move(options)};
    known.round = first_round(known.options);
    known.station.host = host;
    known.station.address =
        is_alone ? loopback_of(known.options.master.host) : known.options.own_address.address;
    const Environment environment = environment_of(known, local_rank);
    std::map<std::string, std::string> later;
    for (const LateInput& input : late_inputs(known.options)) {
        Inputs other = known;
        input.change(other);
        for (const EnvironmentChange& change :
             changes_between(environment, environment_of(other, local_rank)))
            later[change.name] = input.when;
    }
    auto changes = changes_between(inherited, environment);
    std::erase_if(changes, [&later](const EnvironmentChange& change) { return later.contains(change.name); });
    for (const auto& [name, when] : later) changes.push_back({name, std::nullopt, when});
    std::sort(changes.begin(), changes.end(), is_before);
    return changes;
}

std::vector<EnvironmentChange> take_common(std::vector<std::vector<EnvironmentChange>*> lists) {
    std::vector<EnvironmentChange> common;
    if (lists.empty()) return common;
    for (const EnvironmentChange& change : *lists.front()) {
        const bool is_everywhere = std::all_of(lists.begin(), lists.end(), [&change](const auto* list) {
            return std::find(list->begin(), list->end(), change) != list->end();
        });
        if (is_everywhere) common.push_back(change);
    }
    for (auto* list : lists) {
        std::erase_if(*list, [&common](const EnvironmentChange& change) {
            return std::find(common.begin(), common.end(), change) != common.end();
        });
    }
    return common;
}

std::string shown_value(const EnvironmentChange& change) {
    const std::string name = change.name + "=";
    const std::string shown = masked_words({name + change.value.value_or("")}).front();
    return shown.starts_with(name) ? shown.substr(name.size()) : std::string(kNotShown);
}

std::string to_text(const EnvironmentChange& change) {
    const std::string name = harmless_line(change.name);
    if (change.value) return fmt::format("{}={}", name, harmless_line(shown_value(change)));
    return change.later.empty() ? name + " is taken out" : fmt::format("{}: {}", name, change.later);
}

std::string shown_option_value(const std::string& option, const std::string& value) {
    return masked_words({option, value}).back();
}

}  // namespace app
}  // namespace ddprun
