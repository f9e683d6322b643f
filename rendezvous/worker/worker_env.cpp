#include "rendezvous/worker/worker_env.hpp"

#include <fmt/core.h>

#include <unistd.h>
#include <algorithm>
#include <array>

#include "rendezvous/base/error.hpp"
#include "rendezvous/net/endpoint.hpp"
#include "rendezvous/text/whole_number.hpp"
#include "rendezvous/worker/life_table.hpp"
#include "rendezvous/worker/mpirun_machine.hpp"
#include "rendezvous/worker/task_variables.hpp"

namespace ddprun {
inline namespace base {
namespace {

// The names under which one launcher tells a process its place.
struct PlaceNames {
    std::string_view rank;
    std::string_view world_size;
    std::string_view local_rank;
    std::string_view local_world_size;
};

constexpr PlaceNames kTorchNames{"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr PlaceNames kOpenMpiNames{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                                   "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
// Hydra's, and what others that set PMI's two call the local ones.
constexpr std::array<PlaceNames, 4> kPmiNames{
    {{"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
     {"PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK", "PMI_LOCAL_SIZE"},
     {"PMI_RANK", "PMI_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"},
     {"PMI_RANK", "PMI_SIZE", "FLUX_TASK_LOCAL_ID", ""}}};
constexpr PlaceNames kSlurmNames{"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"};

[[noreturn]] void fail_variable(std::string_view name, const std::string& value,
                                const std::string& expected) {
    fail(Errc::malformed, fmt::format("{}='{}' in the environment is not {}", name, value, expected));
}

[[noreturn]] void fail_missing(std::string_view name, const std::string& why) {
    fail(Errc::malformed, fmt::format("{} is not set in the environment, {}", name, why));
}

int read_number(std::string_view name, const std::string& text, int lowest) {
    const auto number = whole_number<int>(text, lowest);
    if (!number) fail_variable(name, text, fmt::format("a whole number of at least {}", lowest));
    return *number;
}

int read_optional_number(const Environment& environment, std::string_view name, int lowest, int otherwise) {
    const std::string* text = find_variable(environment, name);
    return text != nullptr ? read_number(name, *text, lowest) : otherwise;
}

std::string text_of(const Environment& environment, std::string_view name) {
    const std::string* value = find_variable(environment, name);
    return value == nullptr ? std::string() : *value;
}

// A step of Slurm may have PMI's variables and its own, alike, and its own name a meeting place; those of a
// batch script are not its mpirun's. Hydra's local number is set on all its ranks, and by srun on none.
const PlaceNames* find_pmi(const Environment& environment) {
    const PlaceNames& first = kPmiNames.front();
    if (find_variable(environment, first.rank) == nullptr ||
        find_variable(environment, first.world_size) == nullptr)
        return nullptr;
    const auto told = std::ranges::find_if(kPmiNames, [&](const PlaceNames& names) {
        return find_variable(environment, names.local_rank) != nullptr;
    });
    const auto differ = [&](std::string_view one, std::string_view other) {
        return text_of(environment, one) != text_of(environment, other);
    };
    const bool is_step = told != kPmiNames.begin() && !differ(first.rank, kSlurmNames.rank) &&
                         !differ(first.world_size, kSlurmNames.world_size);
    if (is_step) return nullptr;
    return told != kPmiNames.end() ? &*told : &first;
}

// WORLD_SIZE alone is no sign of a launcher: people export it and take the rank from mpirun or srun.
const PlaceNames* find_launcher(const Environment& environment) {
    for (const PlaceNames* names : {&kTorchNames, &kOpenMpiNames}) {
        if (find_variable(environment, names->rank) != nullptr) return names;
    }
    if (const PlaceNames* names = find_pmi(environment)) return names;
    return find_variable(environment, kSlurmNames.rank) != nullptr ? &kSlurmNames : nullptr;
}

void read_ranks(const Environment& environment, const PlaceNames& names, WorkerPlace& place) {
    const std::string* world_size = find_variable(environment, names.world_size);
    if (world_size == nullptr) fail_missing(names.world_size, fmt::format("but {} is", names.rank));
    place.world_size = read_number(names.world_size, *world_size, 1);
    const std::string& rank = *find_variable(environment, names.rank);
    place.rank = read_number(names.rank, rank, 0);
    if (place.rank >= place.world_size)
        fail_variable(names.rank, rank, fmt::format("below {}={}", names.world_size, *world_size));
    // Slurm tells the number of local tasks only if it was asked for.
    place.is_local_size_told =
        find_variable(environment, names.local_world_size) != nullptr && &names != &kSlurmNames;
    place.local_world_size = read_optional_number(environment, names.local_world_size, 1, 1);
    place.local_rank = read_optional_number(environment, names.local_rank, 0, 0);
    if (place.is_local_size_told && place.local_rank >= place.local_world_size)
        fail_variable(names.local_rank, std::to_string(place.local_rank),
                      fmt::format("below {}={}", names.local_world_size, place.local_world_size));
}

// The ports of jobs without MASTER_PORT, below those that the kernel gives to anybody.
constexpr std::uint64_t kFirstJobPort = 10000;
constexpr std::uint64_t kJobPorts = 20000;

// Steps of one job, and jobs one after the other, have different ports.
std::uint16_t port_of_job(std::uint64_t number) {
    return static_cast<std::uint16_t>(kFirstJobPort + number % kJobPorts);
}

// The first of a list as Slurm writes it: gpu[01-03,07] begins with gpu01.
std::string first_host(std::string_view list) {
    std::string host;
    while (!list.empty() && list.front() != ',') {
        const bool range = list.front() == '[';
        if (range) list.remove_prefix(1);
        const std::size_t end = std::min(list.find_first_of(range ? ",-]" : "[,"), list.size());
        host += list.substr(0, end);
        const std::size_t rest = range ? list.find(']') : end;
        list.remove_prefix(rest == std::string_view::npos ? list.size() : range ? rest + 1 : rest);
    }
    return host;
}

// Where the ranks meet that nobody has told it, as their launcher's variables say; the same place on all of
// them.
void find_master(const Environment& environment, const PlaceNames& names, WorkerPlace& place) {
    const auto text = [&](std::string_view name) { return text_of(environment, name); };
    if (names.rank == kOpenMpiNames.rank) {
        const std::string folder = text("PMIX_SERVER_TMPDIR");
        const std::string job = text("PMIX_NAMESPACE");
        const bool plain = job.find('/') == std::string::npos && !job.empty();
        if (place.local_world_size == place.world_size) {
            if (folder.starts_with('/') && plain)
                place.meeting_file = fmt::format("{}/ddprun-{}", folder, job);
        } else if (const auto number = whole_number<std::uint32_t>(job, 1)) {
            place.mpirun_addresses = addresses_of_mpirun(text(kMpirunUri));
            // The upper half is that of an mpirun, the lower counts its jobs.
            if (!place.mpirun_addresses.empty())
                place.master_port = port_of_job((*number >> 16U) * std::uint64_t{31} + (*number & 0xffffU));
        }
    } else if (names.rank == kSlurmNames.rank) {
        const std::string host = first_host(text("SLURM_STEP_NODELIST"));
        const auto job = whole_number<std::uint32_t>(text("SLURM_JOB_ID"), 1);
        const auto step = whole_number<std::uint32_t>(text("SLURM_STEP_ID"), 0);
        if (!is_valid_host(host) || !job || !step) return;
        place.master_addr = host;
        place.master_port = port_of_job(std::uint64_t{*job} * 31 + *step);
    }
}

void read_master(const Environment& environment, WorkerPlace& place) {
    const auto find = [&](std::string_view name) {
        const std::string* value = find_variable(environment, name);
        if (value == nullptr && place.world_size > 1)
            fail_missing(name,
                         fmt::format("and {} ranks cannot find each other without it", place.world_size));
        return value;
    };
    if (const std::string* address = find("MASTER_ADDR")) {
        if (!is_valid_host(*address)) fail_variable("MASTER_ADDR", *address, "a host name or an address");
        place.master_addr = *address;
    }
    if (const std::string* text = find("MASTER_PORT")) {
        const auto port = parse_port(*text);
        if (!port || *port == 0) fail_variable("MASTER_PORT", *text, "a port from 1 to 65535");
        place.master_port = *port;
    }
}

}  // namespace

const std::string* find_variable(const Environment& environment, std::string_view name) {
    auto entry = environment.find(std::string(name));
    return entry == environment.end() ? nullptr : &entry->second;
}

Environment current_environment() {
    Environment environment;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        std::string_view text = *entry;
        auto equals = text.find('=');
        if (equals == std::string_view::npos) continue;
        // The first of two equal names counts, as for getenv.
        environment.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
    return environment;
}

Environment worker_environment(Environment environment, const WorkerIdentity& identity) {
    auto set = [&environment](const char* name, std::string value) { environment[name] = std::move(value); };
    correct_task_variables(environment, {identity.rank, identity.world_size, identity.local_rank,
                                         identity.local_world_size, identity.group_world_size});
    set("RANK", std::to_string(identity.rank));
    set("LOCAL_RANK", std::to_string(identity.local_rank));
    set("WORLD_SIZE", std::to_string(identity.world_size));
    set("LOCAL_WORLD_SIZE", std::to_string(identity.local_world_size));
    set("GROUP_RANK", std::to_string(identity.group_rank));
    set("GROUP_WORLD_SIZE", std::to_string(identity.group_world_size));
    set("ROLE_NAME", identity.role);
    set("ROLE_RANK", std::to_string(identity.role_rank));
    set("ROLE_WORLD_SIZE", std::to_string(identity.role_world_size));
    set("MASTER_ADDR", identity.master_addr);
    set("MASTER_PORT", std::to_string(identity.master_port));
    set("TORCHELASTIC_RESTART_COUNT", std::to_string(identity.restart_count));
    set("TORCHELASTIC_MAX_RESTARTS", std::to_string(identity.max_restarts));
    set("TORCHELASTIC_RUN_ID", identity.run_id);
    set("TORCHELASTIC_USE_AGENT_STORE", "True");
    set("DDPRUN_RUN_ID", identity.job_id);
    set("DDPRUN_START_TIME", std::to_string(identity.start_unix_s));
    set("DDPRUN_ROUND", std::to_string(identity.round));
    set("DDPRUN_MASTER_ADDR", identity.host_addr);
    // A variable that this job does not set may be left of an outer one.
    const auto set_or_erase = [&](const char* name, const std::string& value) {
        if (value.empty())
            environment.erase(name);
        else
            set(name, value);
    };
    set_or_erase("DDPRUN_RESTART_REASON", identity.restart_reason);
    set_or_erase("DDPRUN_NODE_ADDR", identity.node_addr);
    set_or_erase(kMeshKeyVariable, identity.mesh_key);
    set_or_erase(kLifeVariable, identity.life);
    environment.emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
    return environment;
}

WorkerPlace read_worker_place(const Environment& environment) {
    WorkerPlace place;
    const PlaceNames* names = find_launcher(environment);
    if (names != nullptr) {
        read_ranks(environment, *names, place);
    } else if (const std::string* size = find_variable(environment, "WORLD_SIZE")) {
        if (read_number("WORLD_SIZE", *size, 1) > 1)
            fail_missing("RANK", fmt::format("but WORLD_SIZE={} is", *size));
    }
    const bool told = find_variable(environment, "MASTER_ADDR") != nullptr ||
                      find_variable(environment, "MASTER_PORT") != nullptr;
    if (names != nullptr && !told) find_master(environment, *names, place);
    if (place.meeting_file.empty() && place.master_port == 0) read_master(environment, place);
    // Under mpirun and srun these variables could only be left over from somebody else's job.
    if (names == &kTorchNames) {
        const std::string* hosted = find_variable(environment, "TORCHELASTIC_USE_AGENT_STORE");
        place.agent_hosts_store = hosted != nullptr && *hosted == "True";
        place.restart_count = read_optional_number(environment, "TORCHELASTIC_RESTART_COUNT", 0, 0);
        if (const std::string* run_id = find_variable(environment, "TORCHELASTIC_RUN_ID"))
            place.run_id = *run_id;
        const auto address = [&](const char* name) {
            const std::string* text = find_variable(environment, name);
            return text != nullptr && is_valid_host(*text) ? *text : std::string();
        };
        place.host_addr = address("DDPRUN_MASTER_ADDR");
        place.node_addr = address("DDPRUN_NODE_ADDR");
    }
    return place;
}

}  // namespace base
}  // namespace ddprun
