#include "launcher/cluster/slurm.hpp"

#include <fmt/core.h>

#include "launcher/cluster/host_list.hpp"
#include "launcher/cluster/task_counts.hpp"
#include "launcher/harmless_text.hpp"

namespace ddprun::inline launch {

void read_slurm_hosts(const ClusterView& view, FamilyFacts& facts, const std::string& list,
                      const std::string& counts) {
    const std::string* text = text_of(view, list);
    if (text == nullptr) return;
    const auto hosts = expand_host_list(*text);
    if (const auto* wrong = std::get_if<std::string>(&hosts)) {
        facts.conflict = fmt::format("{}: {}", list, *wrong);
        return;
    }
    for (const std::string& name : std::get<std::vector<std::string>>(hosts))
        facts.hosts.push_back({name, 0});
    facts.hosts_source = list;
    const std::string* count_text = text_of(view, counts);
    if (count_text == nullptr) return;
    const auto expanded = expand_task_counts(*count_text);
    if (const auto* wrong = std::get_if<std::string>(&expanded)) {
        facts.conflict = fmt::format("{}: {}", counts, *wrong);
        return;
    }
    const auto& slots = std::get<std::vector<int>>(expanded);
    if (slots.size() != facts.hosts.size()) {
        facts.conflict = fmt::format("{}={} is of {} nodes, but {} has {}", counts,
                                     harmless_line(*count_text), slots.size(), list, facts.hosts.size());
        return;
    }
    for (std::size_t i = 0; i < slots.size(); ++i) facts.hosts[i].slots = slots[i];
}

std::optional<Claim> slurm_identity(const ClusterView& view, bool with_step) {
    const auto job = first_of(view, {"SLURM_JOB_ID", "SLURM_JOBID"});
    if (!job) return std::nullopt;
    Claim identity{"slurm-" + job->text, job->name, Belief::assumed};
    const auto step = first_of(view, {"SLURM_STEP_ID", "SLURM_STEPID"});
    if (with_step && step) {
        identity.value += "." + step->text;
        identity.source += ", " + step->name;
    }
    if (const std::string* restarts = text_of(view, "SLURM_RESTART_COUNT")) {
        identity.value += "-r" + *restarts;
        identity.source += ", SLURM_RESTART_COUNT";
    }
    return identity;
}

int slurm_components(const ClusterView& view) { return number_of(view, "SLURM_HET_SIZE", 1).value_or(1); }

void claim_slurm_limits(const ClusterView& view, FamilyFacts& facts) {
    if (const std::string* end = text_of(view, "SLURM_JOB_END_TIME"))
        claim(facts, Fact::deadline, *end, "SLURM_JOB_END_TIME");
    if (const auto gpus = number_of(view, "SLURM_GPUS_ON_NODE", 1))
        claim(facts, Fact::workers, std::to_string(*gpus), "SLURM_GPUS_ON_NODE");
}

}  // namespace ddprun::inline launch
