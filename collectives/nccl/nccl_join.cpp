#include "collectives/nccl/nccl_join.hpp"

#include <fmt/core.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "collectives/call/checked_task.hpp"
#include "collectives/error.hpp"
#include "collectives/nccl/nccl_backend.hpp"
#include "collectives/tcp/flow.hpp"
#include "rendezvous/text/whole_number.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace ddprun {
inline namespace detail {
namespace {

constexpr const char* kVariable = "NCCL_ALGO";
// The names are in NCCL's spelling; it does not mind the case.
constexpr std::array<const char*, 3> kReductions{"allreduce", "reduce", "reducescatter"};

bool equal(const std::string& left, const char* right) { return ::strcasecmp(left.c_str(), right) == 0; }

// How many objects need the variable. The environment belongs to the process, so this does, too.
struct Users {
    std::mutex mutex;
    int count = 0;
};

Users& users() {
    static const std::reference_wrapper<Users> one(*new Users);
    return one;
}

constexpr std::string_view kJoin = "join: ";

// A rank tells the others this.
struct Offer {
    std::int32_t version = 0;  // of NCCL; 0: it cannot be used
    std::int32_t reproducible = 0;
    NcclUniqueId id;  // rank 0's counts
    std::array<char, 512> problem{};
};

// NCCL needs this on this rank.
struct Tools {
    std::shared_ptr<const NcclLibrary> nccl;
    std::shared_ptr<const CudaPrimaryContext> context;
};

Offer make_offer(const NcclSettings& settings, int rank, Tools& tools) {
    Offer offer;
    offer.reproducible = settings.reproducible ? 1 : 0;
    std::string problem;
    try {
        tools.nccl = NcclLibrary::open(settings.nccl_library);
        tools.context =
            std::make_shared<CudaPrimaryContext>(CudaDriver::open(settings.cuda_library), settings.device);
        offer.version = tools.nccl->version;
        if (rank == 0) {
            const CudaScope scope(*tools.context);
            const NcclResult result = tools.nccl->get_unique_id(&offer.id);
            if (result != NcclResult::success) {
                problem = fmt::format("ncclGetUniqueId failed: {}", tools.nccl->get_error_string(result));
            }
        }
    } catch (const CollectiveError& error) {
        problem = error.what();
        if (problem.starts_with(kJoin)) problem.erase(0, kJoin.size());
    }
    if (!problem.empty()) offer.version = 0;
    problem.copy(offer.problem.data(), offer.problem.size() - 1);
    return offer;
}

// Why the ranks cannot go on together.
std::optional<Verdict> objection(const std::vector<Offer>& offers) {
    for (std::size_t rank = 0; rank < offers.size(); ++rank) {
        const int number = static_cast<int>(rank);
        const Offer& offer = offers[rank];
        if (offer.version == 0) {
            return Verdict{CollectiveErrorCode::system,
                           {number},
                           fmt::format("rank {} cannot use NCCL: {}", number, offer.problem.data())};
        }
        if (offer.version != offers[0].version) {
            return Verdict{
                CollectiveErrorCode::system,
                {0, number},
                fmt::format("rank 0 has NCCL {}, but rank {} has {}", nccl_version_text(offers[0].version),
                            number, nccl_version_text(offer.version))};
        }
        if (offer.reproducible != offers[0].reproducible) {
            // NCCL's ranks would go by different algorithms, and wait for each other for ever.
            const auto yes_or_not = [](const Offer& one) { return one.reproducible != 0 ? "" : "not "; };
            return Verdict{
                CollectiveErrorCode::mismatch,
                {0, number},
                fmt::format("CommunicatorOptions::reproducible is {}set on rank 0, but {}on rank {}",
                            yes_or_not(offers[0]), yes_or_not(offer), number)};
        }
    }
    return std::nullopt;
}

// Ends the making, for all ranks where there are others.
[[noreturn]] void fail(PeerMesh* mesh, const Verdict& verdict, const PeerMesh::Operation& joining) {
    if (mesh != nullptr) mesh->fail(verdict, joining);
    throw error_of(verdict, joining.call);
}

std::vector<Offer> exchange_offers(PeerMesh* mesh, const Offer& own, const PeerMesh::Operation& joining) {
    if (mesh == nullptr) return {own};
    try {
        return gather_over_mesh(*mesh, own, joining);
    } catch (const LinkLost& lost) {
        mesh->fail_lost(lost, joining);
    }
}

// Waits until NCCL has made the communicator, as for an operation.
NcclResult await(NcclComm& comm, const Event& wake, PeerMesh* mesh, const PeerMesh::Operation& joining) {
    std::optional<Deadline> cause_deadline;
    while (true) {
        wake.clear();
        if (mesh != nullptr) mesh->throw_if_ended(joining);
        const auto now = Deadline::clock::now();
        if (const auto made = comm.made()) {
            if (!may_be_a_death(*made) || mesh == nullptr) return *made;
            if (!cause_deadline) cause_deadline = now + kNcclCauseTimeout;
            if (now >= *cause_deadline) return *made;
        } else if (now >= joining.deadline) {
            fail(mesh,
                 {CollectiveErrorCode::timed_out,
                  {},
                  fmt::format("after {} ms ({}) NCCL on rank {} has not made its communicator",
                              joining.timeout.length.count(), joining.timeout.option,
                              mesh != nullptr ? mesh->rank() : 0)},
                 joining);
        }
        wake.wait(cause_deadline.value_or(joining.deadline));
    }
}

// NCCL's communicator. All ranks have come to this, so NCCL need not wait for one that is late; one that dies
// now is named by the mesh, whatever NCCL is in.
std::shared_ptr<NcclComm> make_comm(const Tools& tools, NcclPeers& peers, const NcclUniqueId& id,
                                    const PeerMesh::Operation& joining) {
    PeerMesh* const mesh = peers.mesh();
    auto comm = std::make_shared<NcclComm>(tools.nccl, tools.context);
    const auto wake = std::make_shared<const Event>();
    peers.on_news([wake] { wake->signal(); });
    std::string problem;
    try {
        comm->begin(id, peers.rank(), peers.world_size(), wake);
        const NcclResult made = await(*comm, *wake, mesh, joining);
        if (made == NcclResult::success) return comm;
        const std::string why = made == NcclResult::in_progress
                                    ? "was told to make a non-blocking communicator: unset "
                                      "NCCL_COMM_BLOCKING, in the environment and "
                                      "in nccl.conf"
                                    : "cannot make its communicator: " + comm->describe(made);
        problem = fmt::format("NCCL on rank {} {}", peers.rank(), why);
    } catch (const std::system_error& error) {
        problem = fmt::format("rank {} has no thread to make NCCL's communicator on: {}", peers.rank(),
                              error.what());
    }
    fail(mesh, {CollectiveErrorCode::system, {peers.rank()}, problem}, joining);
}

// NcclRings: lets NCCL reduce by rings, whose results are bitwise equal on all ranks and from run to run;
// what CommunicatorOptions::reproducible is made of.
//
// NCCL can be told so by its environment variable NCCL_ALGO only. It reads that each time it makes a
// communicator, so it is set while one is made, and unset again; it stays as it is where the user has set it.
// What cannot be had: a communicator that another thread of the process makes at that very moment may go by
// rings, too; and the environment changes, which other threads must not read by getenv() meanwhile.
//
// Sets NCCL_ALGO where it is not set; unset when the last of those objects has gone. Any thread.
class NcclRings {
  public:
    explicit NcclRings(int version) {
        const std::lock_guard lock(users().mutex);
        const Environment environment = current_environment();
        const std::string* set = find_variable(environment, kVariable);
        counted_ = users().count > 0 || set == nullptr || set->empty();
        if (counted_ && users().count++ == 0) ::setenv(kVariable, nccl_rings(version), 1);
    }

    NcclRings(const NcclRings&) = delete;
    NcclRings& operator=(const NcclRings&) = delete;
    ~NcclRings() {
        const std::lock_guard lock(users().mutex);
        if (counted_ && --users().count == 0) ::unsetenv(kVariable);
    }

  private:
    bool counted_;
};

}  // namespace

const char* nccl_rings(int version) noexcept {
    return version >= kNcclVersionWithAlgoByOperation ? "allreduce:ring;reduce:ring;reducescatter:ring"
                                                      : "Ring";
}

bool reduces_by_rings(std::string_view algorithms) {
    // "ring,tree;allreduce:ring": for all operations, then for one.
    std::array<bool, kReductions.size()> ring{};
    while (!algorithms.empty()) {
        const auto end = std::min(algorithms.find(';'), algorithms.size());
        const std::string_view entry = algorithms.substr(0, end);
        algorithms.remove_prefix(std::min(end + 1, algorithms.size()));
        const auto colon = entry.find(':');
        const bool of_one = colon != std::string_view::npos;
        const bool is_ring = equal(std::string(of_one ? entry.substr(colon + 1) : entry), "ring");
        for (std::size_t i = 0; i < kReductions.size(); ++i) {
            if (!of_one || equal(std::string(entry.substr(0, colon)), kReductions[i])) ring[i] = is_ring;
        }
    }
    return std::all_of(ring.begin(), ring.end(), [](bool is) { return is; });
}

std::optional<NcclSettings> read_nccl_settings(const Environment& environment,
                                               const CommunicatorOptions& options, int local_rank) {
    const auto value = [&](const char* name) {
        const std::string* found = find_variable(environment, name);
        return found == nullptr ? std::string() : *found;
    };
    BackendChoice choice = options.backend;
    if (choice == BackendChoice::automatic) {
        const std::string wanted = value("DDPRUN_BACKEND");
        if (!wanted.empty() && wanted != "cpu" && wanted != "nccl") {
            refuse("join", fmt::format("DDPRUN_BACKEND='{}' is neither cpu nor nccl", wanted));
        }
        choice = wanted == "nccl" ? BackendChoice::nccl : BackendChoice::cpu;
    }
    if (choice == BackendChoice::cpu) return std::nullopt;
    NcclSettings settings{value("DDPRUN_NCCL_LIBRARY"), value("DDPRUN_CUDA_LIBRARY"), std::max(local_rank, 0),
                          options.reproducible};
    const std::string algorithms = value("NCCL_ALGO");
    if (options.reproducible && !algorithms.empty() && !reduces_by_rings(algorithms)) {
        refuse("join",
               fmt::format("NCCL_ALGO='{}' contradicts CommunicatorOptions::reproducible, which reduces by "
                           "rings: unset one of them, or set NCCL_ALGO=Ring",
                           algorithms));
    }
    const auto read_device = [&](const char* name) {
        const std::string text = value(name);
        const auto device = whole_number<int>(text, 0);
        if (!device) refuse("join", fmt::format("{}='{}' is not the number of a device", name, text));
        settings.device = *device;
    };
    if (options.device >= 0) {
        settings.device = options.device;
    } else if (!value("DDPRUN_DEVICE").empty()) {
        read_device("DDPRUN_DEVICE");
    } else if (local_rank < 0 && !value("LOCAL_RANK").empty()) {
        read_device("LOCAL_RANK");
    }
    return settings;
}

std::unique_ptr<Backend> join_nccl(std::unique_ptr<NcclPeers> peers, const NcclSettings& settings,
                                   const PeerMesh::Operation& joining) {
    PeerMesh* const mesh = peers->mesh();
    Tools tools;
    const auto offers = exchange_offers(mesh, make_offer(settings, peers->rank(), tools), joining);
    if (const auto verdict = objection(offers)) fail(mesh, *verdict, joining);
    std::optional<NcclRings> rings;
    if (settings.reproducible) rings.emplace(tools.nccl->version);
    auto comm = make_comm(tools, *peers, offers[0].id, joining);
    return make_nccl_backend(tools.context, std::move(comm), std::move(peers));
}

}  // namespace detail
}  // namespace ddprun
