// Batch systems that give a job its hosts and start one script: Slurm, LSF, and those that name a file of
// hosts.
#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "launcher/cluster/readers.hpp"
#include "launcher/harmless_text.hpp"
#include "rendezvous/text/split.hpp"
#include "rendezvous/text/whole_number.hpp"

namespace ddprun {
inline namespace launch {
namespace {

// No job has more.
constexpr int kMaxGpus = 10'000'000;

// Counts the nodes of all components of a heterogeneous job; each of them has variables of its own.
std::optional<long> nodes_of_components(const ClusterView& view, FamilyFacts& facts, int components) {
    long sum = 0;
    for (int i = 0; i < components; ++i) {
        const auto nodes = take_number(view, facts, fmt::format("SLURM_JOB_NUM_NODES_HET_GROUP_{}", i), 1);
        if (!nodes || sum > static_cast<long>(kMaxListedHosts)) return std::nullopt;
        sum += *nodes;
    }
    return sum;
}

void claim_job_nodes(const ClusterView& view, FamilyFacts& facts) {
    const int components = slurm_components(view, facts);
    if (components > 1) {
        // The other variables may be the first component's.
        if (const auto sum = nodes_of_components(view, facts, components))
            return claim(facts, Fact::nnodes, std::to_string(*sum), "SLURM_JOB_NUM_NODES_HET_GROUP_*");
        facts.ways_out[Fact::nnodes] = fmt::format(
            "the job has {} components by SLURM_HET_SIZE, of which SLURM_JOB_NUM_NODES_HET_GROUP_* are not "
            "set, so name its hosts by --hosts or --hostfile",
            components);
        return;
    }
    for (const char* variable : {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"})
        claim_number(view, facts, Fact::nnodes, variable, 1);
    if (!facts.hosts.empty())
        claim(facts, Fact::nnodes, std::to_string(facts.hosts.size()), facts.hosts_source);
}

// Count and list of one pair are of one job, or both are the step's.
std::string wrong_counts(const ClusterView& view, const FamilyFacts& facts) {
    constexpr std::array<std::array<const char*, 2>, 2> kPairs = {
        {{"SLURM_JOB_NUM_NODES", "SLURM_JOB_NODELIST"}, {"SLURM_NNODES", "SLURM_NODELIST"}}};
    for (const auto& [count, list] : kPairs) {
        if (auto wrong = wrong_number(view, count, 1); !wrong.empty()) return wrong;
        if (facts.hosts_source != list) continue;
        if (auto differ = count_conflict(count, number_of(view, count, 1), list, facts.hosts);
            !differ.empty())
            return differ;
    }
    return {};
}

// Counts those of "8", "a100:8" and "a100:4,v100:2".
std::optional<int> gpus_of(const std::string& text) {
    int sum = 0;
    for (const std::string_view part : split_at(text, ',')) {
        const auto count = whole_number<int>(part.substr(part.rfind(':') + 1), 1, kMaxGpus);
        if (!count || sum > kMaxGpus) return std::nullopt;
        sum += *count;
    }
    return sum;
}

// A step of one task on one node is given what the job has for each node, but only its share of what it has
// for each task, and all of what it has in total, which no node has. False where nobody says what each node
// has.
bool claim_step_gpus(const ClusterView& view, FamilyFacts& facts) {
    if (const std::string* each = text_of(view, "SLURM_GPUS_PER_TASK")) {
        const auto gpus = gpus_of(*each);
        for (ListedHost& host : facts.hosts) {
            if (gpus && host.slots > 0 && host.slots <= kMaxGpus / *gpus) host.gpus = *gpus * host.slots;
            if (host.gpus == 0) return false;
        }
        return true;
    }
    const std::string* all = text_of(view, "SLURM_GPUS");
    if (all == nullptr || text_of(view, "SLURM_GPUS_PER_NODE") != nullptr || facts.hosts.empty()) return true;
    const auto gpus = gpus_of(*all);
    const int nodes = static_cast<int>(facts.hosts.size());
    if (!gpus || *gpus % nodes != 0) return false;
    for (ListedHost& host : facts.hosts) host.gpus = *gpus / nodes;
    return true;
}

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
    if (auto wrong = wrong_number(view, kCount, 1); !wrong.empty()) return wrong;
    const auto count = number_of(view, kCount, 1);
    if (!count || facts.hosts.empty() || sum == *count) return {};
    return fmt::format("{}={}, but {} has {} slots", kCount, *count, facts.hosts_source, sum);
}

// No host has as many.
constexpr int kMaxQueueSlots = 1'000'000;

constexpr HostFileNames kPbs{"PBS_JOBID", "PBS_NODEFILE", "PBS_NUM_NODES", "pbs", "pbsdsh", "ssh"};
constexpr std::string_view kNamedBy = "so name them by --hosts or --hostfile";
constexpr HostFileNames kSge{"JOB_ID", "PE_HOSTFILE", "NHOSTS", "sge", "qrsh -inherit", "qrsh"};

FamilyFacts facts_of(const ClusterView& view, const HostFileNames& names, std::vector<ListedHost> hosts) {
    FamilyFacts facts;
    facts.hosts = std::move(hosts);
    facts.hosts_source = names.file;
    claim_listed_hosts(view, facts);
    const std::string* path = text_of(view, names.file);
    const auto count = take_number(view, facts, names.count, 1);
    if (count) {
        claim(facts, Fact::nnodes, std::to_string(*count), std::string(names.count));
        facts.rivals[Fact::nnodes] = {std::to_string(*count), std::string(names.count), Belief::assumed};
    }
    facts.ways_out[Fact::nnodes] = path != nullptr ? fmt::format("{}={} cannot be read, or has no hosts, {}",
                                                                 names.file, harmless_line(*path), kNamedBy)
                                                   : fmt::format("{} is not set, {}", names.file, kNamedBy);
    claim_told(view, facts, Fact::job_id, names.job, fmt::format("{}-", names.job_name));
    facts.start_others = fmt::format("{} (with --nnodes, --node-rank and --master-addr)", names.start_others);
    facts.reached_by = names.reached_by;
    return facts;
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

// The scheduler's script is task 1 of its first node; all others are pbsdsh's, or those of another user of
// its interface.
bool is_pbs_task(const ClusterView& view) {
    return number_of(view, "PBS_NODENUM", 1) || number_of(view, "PBS_TASKNUM", 2);
}

// The launcher's pod has the list of its workers in such a file, by which somebody starts one process on each
// of them.
struct LauncherFile {
    std::string_view file;
    std::string_view start_others;
};
constexpr std::array<LauncherFile, 3> kLauncherFiles = {
    {{"OMPI_MCA_orte_default_hostfile", "mpirun --map-by ppr:1:node ddprun …"},
     {"HYDRA_HOST_FILE", "mpiexec -ppn 1 ddprun …"},
     {"I_MPI_HYDRA_HOST_FILE", "mpiexec -ppn 1 ddprun …"}}};

}  // namespace

void read_slurm_hosts(const ClusterView& view, FamilyFacts& facts, const std::string& list,
                      const std::string& counts) {
    if (!take_host_list(view, facts, list)) return;
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

void claim_slurm_identity(const ClusterView& view, FamilyFacts& facts, bool with_step) {
    const auto job = first_of(view, {"SLURM_JOB_ID", "SLURM_JOBID"});
    if (!job) return;
    std::string id = "slurm-" + job->text, source = job->name;
    const auto step = first_of(view, {"SLURM_STEP_ID", "SLURM_STEPID"});
    if (with_step && step) {
        id += "." + step->text;
        source += ", " + step->name;
    }
    if (const std::string* restarts = text_of(view, "SLURM_RESTART_COUNT")) {
        id += "-r" + *restarts;
        source += ", SLURM_RESTART_COUNT";
    }
    claim(facts, Fact::job_id, std::move(id), source);
}

int slurm_components(const ClusterView& view, FamilyFacts& facts) {
    return take_number(view, facts, "SLURM_HET_SIZE", 1).value_or(1);
}

void claim_slurm_limits(const ClusterView& view, FamilyFacts& facts) {
    claim_told(view, facts, Fact::deadline, "SLURM_JOB_END_TIME");
    claim_number(view, facts, Fact::workers, "SLURM_GPUS_ON_NODE", 1);
}

std::optional<FamilyFacts> read_slurm_job(const ClusterView& view) {
    const auto list = first_of(view, {"SLURM_JOB_NODELIST", "SLURM_NODELIST"});
    // A shell of salloc in front of several components has none of the rest.
    const bool is_job =
        list || first_of(view, {"SLURM_HET_SIZE", "SLURM_JOB_NUM_NODES", "SLURM_NNODES"}).has_value();
    if (!is_job) return std::nullopt;
    FamilyFacts facts;
    if (list) read_slurm_hosts(view, facts, list->name, "SLURM_TASKS_PER_NODE");
    // A step's own count has taken its place there.
    if (!facts.conflict.empty() && !facts.hosts.empty()) facts.conflict.clear();
    refuse(facts, wrong_counts(view, facts));
    claim_job_nodes(view, facts);
    const auto names = names_of(facts.hosts);
    auto position = own_position(view, names);
    std::string source = facts.hosts_source;
    if (const std::string* name = text_of(view, "SLURMD_NODENAME")) {
        claim_told(view, facts, Fact::own_name, "SLURMD_NODENAME");
        if (!position) {
            position = position_of(*name, names);
            source = "SLURMD_NODENAME";
        }
    }
    if (position) claim(facts, Fact::node_rank, std::to_string(*position), source);
    if (!facts.hosts.empty()) claim(facts, Fact::master_addr, facts.hosts.front().name, facts.hosts_source);
    claim_slurm_identity(view, facts, false);
    claim_slurm_limits(view, facts);
    facts.start_others = "srun --ntasks-per-node=1 ddprun …";
    if (claim_step_gpus(view, facts)) facts.reached_by = "srun";
    facts.reached_from_outside = true;
    // A shell of salloc, which may run on one of the job's nodes; slurmd tells its own processes.
    facts.is_outside = text_of(view, "SLURMD_NODENAME") == nullptr;
    facts.must_be_listed = true;
    return facts;
}

HostList slurm_host_list(const ClusterView& view) {
    HostList list;
    auto facts = read_slurm_job(view);
    if (!facts) return list;
    refuse_false_names(view, *facts);
    list.hosts = names_of(facts->hosts);
    if (list.hosts.empty() && !facts->conflict.empty())
        list.complaint =
            fmt::format("{}; passed over, and nodes are numbered by their host names", facts->conflict);
    const auto place = facts->claims.find(Fact::node_rank);
    if (place != facts->claims.end()) list.position = whole_number<int>(place->second.value);
    return list;
}

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

std::optional<FamilyFacts> read_lsf(const ClusterView& view) {
    if (text_of(view, "LSB_JOBID") == nullptr) return std::nullopt;
    FamilyFacts facts;
    facts.hosts = read_lsf_hosts(view, facts.hosts_source);
    claim_listed_hosts(view, facts);
    claim_told(view, facts, Fact::job_id, "LSB_JOBID", "lsf-");
    facts.start_others = "blaunch -z 'HOSTS' ddprun …";
    facts.reached_by = "blaunch";
    facts.ways_out[Fact::nnodes] =
        fmt::format("{}, {}, {}, {}", lack_of(view, "LSB_MCPU_HOSTS", "no list like n1 4 n2 4"),
                    lack_of(view, "LSB_DJOB_HOSTFILE", "no file that can be read"),
                    lack_of(view, "LSB_HOSTS", "no list of hosts"), kNamedBy);
    refuse(facts, slots_conflict(view, facts));
    return facts;
}

std::optional<FamilyFacts> read_host_file(const ClusterView& view, const HostFileNames& names) {
    if (text_of(view, names.job) == nullptr) return std::nullopt;
    const std::string* file = named_file(view, names.file);
    return facts_of(view, names,
                    file != nullptr ? count_repeats(words_between_blanks(*file)) : std::vector<ListedHost>{});
}

std::optional<FamilyFacts> read_pbs(const ClusterView& view) {
    auto facts = read_host_file(view, kPbs);
    const bool is_task = is_pbs_task(view);
    if (!facts && is_task) facts.emplace();
    for (const char* variable : {"PBS_NODENUM", "PBS_TASKNUM"}) {
        if (facts) refuse_wrong_number(view, *facts, variable, 0);
    }
    if (!is_task) return facts;
    claim_number(view, *facts, Fact::node_rank, "PBS_NODENUM", 0);
    const auto sign = first_of(view, {"PBS_TASKNUM", "PBS_NODENUM"});
    const std::string way_out =
        fmt::format("pbsdsh has started this task ({}={}), so give --nnodes and --master-addr", sign->name,
                    harmless_line(sign->text));
    facts->ways_out[Fact::nnodes] = way_out;
    facts->reached_by.clear();
    if (facts->hosts.size() > 1) facts->conflict = way_out;
    return facts;
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
    refuse(facts, count_conflict(kSge.count, number_of(view, kSge.count, 1), kSge.file, facts.hosts));
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

}  // namespace launch
}  // namespace ddprun
