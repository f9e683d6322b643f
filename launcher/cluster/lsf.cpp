#include "launcher/cluster/lsf.hpp"

#include <fmt/core.h>

#include "launcher/cluster/host_lines.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline launch {
namespace {

// `h1 n1 h2 n2`.
std::vector<ListedHost> read_host_pairs(std::string_view text) {
    std::vector<ListedHost> hosts;
    const auto words = words_between_blanks(text);
    if (words.size() % 2 != 0) return {};
    for (std::size_t i = 0; i < words.size() && hosts.size() < kMaxListedHosts; i += 2) {
        const auto slots = whole_number<int>(words[i + 1], 0);
        if (!slots) return {};
        hosts.push_back({std::string(words[i]), *slots});
    }
    return hosts;
}

// LSF counts the slots of all hosts.
std::string slots_conflict(const ClusterView& view, const FamilyFacts& facts) {
    constexpr const char* kCount = "LSB_DJOB_NUMPROC";
    long sum = 0;
    for (const ListedHost& host : facts.hosts) sum += host.slots;
    const auto count = number_of(view, kCount, 1);
    if (!count || facts.hosts.empty() || sum == *count) return {};
    return fmt::format("{}={}, but {} has {} slots", kCount, *count, facts.hosts_source, sum);
}

}  // namespace

std::vector<ListedHost> read_lsf_hosts(const ClusterView& view, std::string& source) {
    const auto take = [&source](std::vector<ListedHost> hosts, const char* variable) {
        if (!hosts.empty()) source = variable;
        return hosts;
    };
    if (const std::string* pairs = text_of(view, "LSB_MCPU_HOSTS")) {
        if (auto hosts = take(read_host_pairs(*pairs), "LSB_MCPU_HOSTS"); !hosts.empty()) return hosts;
    }
    if (const std::string* file = named_file(view, "LSB_DJOB_HOSTFILE")) {
        if (auto hosts = take(count_repeats(words_between_blanks(*file)), "LSB_DJOB_HOSTFILE");
            !hosts.empty())
            return hosts;
    }
    const std::string* words = text_of(view, "LSB_HOSTS");
    return words != nullptr ? take(count_repeats(words_between_blanks(*words)), "LSB_HOSTS")
                            : std::vector<ListedHost>{};
}

void claim_lsf_identity(const ClusterView& view, FamilyFacts& facts) {
    if (const std::string* job = text_of(view, "LSB_JOBID"))
        claim(facts, Fact::job_id, "lsf-" + *job, "LSB_JOBID");
}

std::optional<FamilyFacts> read_lsf(const ClusterView& view) {
    if (text_of(view, "LSB_JOBID") == nullptr) return std::nullopt;
    FamilyFacts facts;
    facts.hosts = read_lsf_hosts(view, facts.hosts_source);
    claim_listed_hosts(view, facts);
    claim_lsf_identity(view, facts);
    facts.start_others = "blaunch -z 'HOSTS' ddprun …";
    facts.reached_by = "blaunch";
    facts.ways_out[Fact::nnodes] =
        "none of LSB_MCPU_HOSTS (host slots host slots), LSB_DJOB_HOSTFILE and LSB_HOSTS can be read, "
        "so name them by --hosts or --hostfile";
    if (facts.conflict.empty()) facts.conflict = slots_conflict(view, facts);
    return facts;
}

}  // namespace ddprun::inline launch
