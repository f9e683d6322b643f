// Batch systems that start one script and name a file with the job's hosts.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "launcher/cluster/host_lines.hpp"
#include "launcher/harmless_text.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline launch {
namespace {

// Of one host, far beyond any.
constexpr int kMaxQueueSlots = 1'000'000;

struct HostFileNames {
    std::string_view job;
    std::string_view file;
    std::string_view count;  // of nodes; may be empty
    std::string_view job_name;
    std::string_view start_others;
    std::string_view reached_by;
};

// pbsdsh gives its tasks no standard input, by which a relay is told what to do.
constexpr HostFileNames kPbs{"PBS_JOBID", "PBS_NODEFILE", "PBS_NUM_NODES", "pbs", "pbsdsh", "ssh"};
constexpr HostFileNames kCobalt{"COBALT_JOBID", "COBALT_NODEFILE", {}, "cobalt", "mpiexec --ppn 1", "ssh"};
constexpr HostFileNames kOar{"OAR_JOB_ID", "OAR_NODEFILE", {}, "oar", "oarsh", "oarsh"};
constexpr HostFileNames kLoadLeveler{"LOADL_STEP_ID", "LOADL_HOSTFILE", {}, "loadleveler", "poe", "ssh"};
constexpr std::string_view kNamedBy = "so name them by --hosts or --hostfile";
constexpr HostFileNames kSge{"JOB_ID", "PE_HOSTFILE", "NHOSTS", "sge", "qrsh -inherit", "qrsh"};

FamilyFacts facts_of(const ClusterView& view, const HostFileNames& names, std::vector<ListedHost> hosts) {
    FamilyFacts facts;
    facts.hosts = std::move(hosts);
    facts.hosts_source = names.file;
    claim_listed_hosts(view, facts);
    const std::string* path = text_of(view, names.file);
    const auto count = names.count.empty() ? std::nullopt : number_of(view, names.count, 1);
    if (count) {
        claim(facts, Fact::nnodes, std::to_string(*count), std::string(names.count));
        facts.rivals[Fact::nnodes] = {std::to_string(*count), std::string(names.count), Belief::assumed};
    }
    facts.ways_out[Fact::nnodes] = path != nullptr ? fmt::format("{}={} cannot be read, or has no hosts, {}",
                                                                 names.file, harmless_line(*path), kNamedBy)
                                                   : fmt::format("{} is not set, {}", names.file, kNamedBy);
    if (const std::string* job = text_of(view, names.job))
        claim(facts, Fact::job_id, fmt::format("{}-{}", names.job_name, *job), std::string(names.job));
    facts.start_others = fmt::format("{} (with --nnodes, --node-rank and --master-addr)", names.start_others);
    facts.reached_by = names.reached_by;
    return facts;
}

// One word for each slot.
std::optional<FamilyFacts> read_slot_words(const ClusterView& view, const HostFileNames& names) {
    if (text_of(view, names.job) == nullptr) return std::nullopt;
    const std::string* file = named_file(view, names.file);
    return facts_of(view, names,
                    file != nullptr ? count_repeats(words_between_blanks(*file)) : std::vector<ListedHost>{});
}

// `host slots queue processors` in each line; a host may have several queues.
std::vector<ListedHost> read_queue_lines(std::string_view text) {
    std::vector<ListedHost> hosts;
    for (const std::string_view line : lines_of(text)) {
        const auto words = words_between_blanks(line);
        if (words.empty()) continue;
        const int slots = words.size() > 1 ? whole_number<int>(words[1], 0, kMaxQueueSlots).value_or(0) : 0;
        if (!hosts.empty() && hosts.back().name == words[0]) {
            hosts.back().slots = std::min(hosts.back().slots + slots, kMaxQueueSlots);
        } else if (hosts.size() < kMaxListedHosts) {
            hosts.push_back({std::string(words[0]), slots});
        }
    }
    return hosts;
}

// `host slots=N` in each line, as Open MPI has it, or `host:N`, as Hydra.
std::vector<ListedHost> read_slot_lines(std::string_view text) {
    std::vector<ListedHost> hosts;
    constexpr std::string_view kSlots = "slots=";
    for (const std::string_view line : lines_of(text)) {
        const auto words = words_between_blanks(line);
        if (words.empty() || words[0].starts_with('#') || hosts.size() == kMaxListedHosts) continue;
        const auto colon = words[0].find(':');
        const bool is_counted = colon != std::string_view::npos && colon == words[0].rfind(':');
        std::string_view slots = is_counted ? words[0].substr(colon + 1) : "";
        if (words.size() > 1 && words[1].starts_with(kSlots)) slots = words[1].substr(kSlots.size());
        hosts.push_back({std::string(words[0].substr(0, is_counted ? colon : words[0].size())),
                         whole_number<int>(slots, 0).value_or(0)});
    }
    return hosts;
}

// The scheduler's script is task 1 of its first node; all others are pbsdsh's, or those of another user of its interface.
bool is_pbs_task(const ClusterView& view) {
    return number_of(view, "PBS_NODENUM", 1) || number_of(view, "PBS_TASKNUM", 2);
}

// Where the launcher's pod has the list of its workers, and who starts one process on each of them by it.
struct LauncherFile {
    std::string_view file;
    std::string_view start_others;
};
constexpr std::array<LauncherFile, 3> kLauncherFiles = {
    {{"OMPI_MCA_orte_default_hostfile", "mpirun --map-by ppr:1:node ddprun …"},
     {"HYDRA_HOST_FILE", "mpiexec -ppn 1 ddprun …"},
     {"I_MPI_HYDRA_HOST_FILE", "mpiexec -ppn 1 ddprun …"}}};

}  // namespace

std::optional<FamilyFacts> read_pbs(const ClusterView& view) {
    auto facts = read_slot_words(view, kPbs);
    if (!is_pbs_task(view)) return facts;
    if (!facts) facts.emplace();
    if (const auto node = number_of(view, "PBS_NODENUM", 0))
        claim(*facts, Fact::node_rank, std::to_string(*node), "PBS_NODENUM");
    const auto sign = first_of(view, {"PBS_TASKNUM", "PBS_NODENUM"});
    const std::string way_out =
        fmt::format("pbsdsh has started this task ({}={}), so give --nnodes and --master-addr", sign->name,
                    harmless_line(sign->text));
    facts->ways_out[Fact::nnodes] = way_out;
    facts->reached_by.clear();
    if (facts->hosts.size() > 1) facts->conflict = way_out;
    return facts;
}

std::optional<FamilyFacts> read_cobalt(const ClusterView& view) { return read_slot_words(view, kCobalt); }

std::optional<FamilyFacts> read_oar(const ClusterView& view) { return read_slot_words(view, kOar); }

std::optional<FamilyFacts> read_load_leveler(const ClusterView& view) {
    return read_slot_words(view, kLoadLeveler);
}

std::optional<FamilyFacts> read_sge(const ClusterView& view) {
    for (const char* sign : {"SGE_ROOT", "ARC", "JOB_ID"}) {
        if (text_of(view, sign) == nullptr) return std::nullopt;
    }
    // A job without a parallel environment is of one host, and has no file.
    const std::string* count = text_of(view, kSge.count);
    if (text_of(view, kSge.file) == nullptr && (count == nullptr || *count == "1")) return std::nullopt;
    const std::string* file = named_file(view, kSge.file);
    FamilyFacts facts =
        facts_of(view, kSge, file != nullptr ? read_queue_lines(*file) : std::vector<ListedHost>{});
    if (facts.conflict.empty()) facts.conflict = wrong_number(view, kSge.count, 1);
    if (facts.conflict.empty())
        facts.conflict = count_conflict(kSge.count, number_of(view, kSge.count, 1), kSge.file, facts.hosts);
    return facts;
}

std::optional<FamilyFacts> read_mpi_operator(const ClusterView& view) {
    constexpr std::string_view kRole = "K_MPI_JOB_ROLE";
    const std::string* role = text_of(view, kRole);
    if (role == nullptr || *role != "launcher") return std::nullopt;
    const auto is_set = [&view](const LauncherFile& one) { return text_of(view, one.file) != nullptr; };
    const auto found = std::find_if(kLauncherFiles.begin(), kLauncherFiles.end(), is_set);
    const LauncherFile& names = found != kLauncherFiles.end() ? *found : kLauncherFiles.front();
    const std::string* file = named_file(view, names.file);
    FamilyFacts facts = facts_of(view, {kRole, names.file, {}, "mpijob", {}, {}},
                                 file != nullptr ? read_slot_lines(*file) : std::vector<ListedHost>{});
    if (found == kLauncherFiles.end())
        facts.ways_out[Fact::nnodes] = fmt::format("none of {}, {} and {} is set, {}", kLauncherFiles[0].file,
                                                   kLauncherFiles[1].file, kLauncherFiles[2].file, kNamedBy);
    facts.start_others = names.start_others;
    facts.claims.erase(Fact::job_id);
    facts.must_be_listed = true;
    return facts;
}

}  // namespace ddprun::inline launch
