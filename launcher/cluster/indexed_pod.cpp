#include <fmt/core.h>

#include "launcher/cluster/host_lines.hpp"
#include "launcher/harmless_text.hpp"
#include "rendezvous/net/endpoint.hpp"

namespace ddprun::inline launch {
namespace {

// The pod's own line of /etc/hosts, which has its domain where there is one: "10.1.2.3 job-1.svc.ns job-1".
std::string own_domain(const ClusterView& view) {
    const auto file = view.files.find("/etc/hosts");
    if (file == view.files.end()) return {};
    const std::string wanted = view.host_name.substr(0, view.host_name.find('.')) + ".";
    for (const std::string_view line : lines_of(file->second)) {
        for (const std::string_view word : words_between_blanks(line)) {
            if (word.starts_with('#')) break;
            if (word.starts_with(wanted)) return std::string(word.substr(wanted.size()));
        }
    }
    return {};
}

// A pod is called <job>-<index>, and one of a JobSet <set>-<replicated job>-<job index>-<index>.
std::string job_of_pod(const ClusterView& view, int index) {
    const std::string name = view.host_name.substr(0, view.host_name.find('.'));
    const std::string end = fmt::format("-{}", index);
    return name.ends_with(end) ? name.substr(0, name.size() - end.size()) : "";
}

}  // namespace

// How many pods there are no pod is told.
std::optional<FamilyFacts> read_indexed_pod(const ClusterView& view) {
    const auto index = number_of(view, "JOB_COMPLETION_INDEX", 0);
    if (text_of(view, "JOB_COMPLETION_INDEX") == nullptr) return std::nullopt;
    FamilyFacts facts;
    facts.conflict = wrong_number(view, "JOB_COMPLETION_INDEX", 0);
    if (!index) return facts;
    facts.ways_out[Fact::nnodes] =
        "a pod is told its index only (JOB_COMPLETION_INDEX), so give --nnodes; where each pod is a job of "
        "its own, "
        "--standalone";
    facts.ways_out[Fact::master_addr] =
        "a pod of an indexed Job is known to others where its template has a subdomain and a headless "
        "service; with "
        "these, or with --master-addr, they meet";
    if (const std::string* address = text_of(view, "MASTER_ADDR"))
        claim(facts, Fact::master_addr, *address, "MASTER_ADDR");
    if (const std::string* port = text_of(view, "MASTER_PORT"); port != nullptr && parse_port(*port))
        claim(facts, Fact::master_port, *port, "MASTER_PORT");
    const std::string job = job_of_pod(view, *index);
    const std::string* set = text_of(view, "JOBSET_NAME");
    const std::string* group = text_of(view, "REPLICATED_JOB_NAME");
    if (set != nullptr && group != nullptr && job != fmt::format("{}-{}-0", *set, *group) && !job.empty()) {
        facts.ways_out[Fact::node_rank] = fmt::format(
            "this pod is of another job than {}-{}-0 of its JobSet, and each counts from 0, so give "
            "--node-rank",
            *set, *group);
    } else {
        claim(facts, Fact::node_rank, std::to_string(*index), "JOB_COMPLETION_INDEX");
    }
    if (set != nullptr && group != nullptr) {
        claim(facts, Fact::master_addr, fmt::format("{0}-{1}-0-0.{0}", *set, *group), "JOBSET_NAME");
        claim(facts, Fact::job_id, "jobset-" + *set, "JOBSET_NAME");
    }
    const std::string domain = own_domain(view);
    if (!job.empty() && !domain.empty())
        claim(facts, Fact::master_addr, fmt::format("{}-0.{}", job, domain), "/etc/hosts");
    if (!job.empty()) claim(facts, Fact::job_id, "job-" + job, "the pod's name");
    return facts;
}

}  // namespace ddprun::inline launch
