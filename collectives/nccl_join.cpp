#include "collectives/nccl_join.hpp"

#include <array>
#include <charconv>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "collectives/mesh_gather.hpp"
#include "collectives/nccl_backend.hpp"

namespace ddprun {
namespace {

constexpr std::string_view kJoin = "join: ";
// Between looks at NCCL while it makes the communicator, which takes a hundred of these and more.
constexpr std::chrono::milliseconds kLook{1};

[[noreturn]] void fail_argument(const std::string& what) {
    throw CollectiveError(CollectiveErrorCode::invalid_argument, "join: " + what, {}, "join");
}

// What a rank tells the others.
struct Offer {
    std::int32_t version = 0;  // of NCCL; 0: it cannot be used
    NcclUniqueId id;           // rank 0's counts
    std::array<char, 512> problem{};
};

// What NCCL needs on this rank.
struct Tools {
    std::shared_ptr<const NcclLibrary> nccl;
    std::shared_ptr<const CudaPrimaryContext> context;
};

Tools open_tools(const NcclSettings& settings) {
    Tools tools;
    tools.nccl = NcclLibrary::open(settings.nccl_library);
    tools.context =
        std::make_shared<CudaPrimaryContext>(CudaDriver::open(settings.cuda_library), settings.device);
    return tools;
}

Offer make_offer(const NcclSettings& settings, int rank, Tools& tools) {
    Offer offer;
    std::string problem;
    try {
        tools = open_tools(settings);
        offer.version = tools.nccl->version;
        if (rank == 0) {
            const CudaScope scope(*tools.context);
            const NcclResult result = tools.nccl->get_unique_id(&offer.id);
            if (result != NcclResult::success) {
                problem = std::string("ncclGetUniqueId failed: ") + tools.nccl->get_error_string(result);
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
        const std::string who = "rank " + std::to_string(rank);
        if (offers[rank].version == 0) {
            return Verdict{CollectiveErrorCode::system,
                           {static_cast<int>(rank)},
                           who + " cannot use NCCL: " + offers[rank].problem.data()};
        }
        if (offers[rank].version != offers[0].version) {
            return Verdict{CollectiveErrorCode::system,
                           {0, static_cast<int>(rank)},
                           "rank 0 has NCCL " + nccl_version_text(offers[0].version) + ", but " + who +
                               " has " + nccl_version_text(offers[rank].version)};
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

// NCCL makes the communicator in the background; watched as an operation is.
void await(NcclComm& comm, NcclResult begun, PeerMesh* mesh, const PeerMesh::Operation& joining) {
    const int rank = mesh != nullptr ? mesh->rank() : 0;
    std::optional<NcclResult> now = begun;
    while (now == NcclResult::in_progress || !now) {
        if (mesh != nullptr) mesh->throw_if_ended(joining);
        if (PeerMesh::Clock::now() >= joining.deadline) {
            fail(mesh,
                 {CollectiveErrorCode::timed_out,
                  {},
                  "after " + std::to_string(joining.limit.length.count()) + " ms (" +
                      std::string(joining.limit.option) + ") NCCL on rank " + std::to_string(rank) +
                      " has not made its communicator"},
                 joining);
        }
        std::this_thread::sleep_for(kLook);  // NCCL has no event for it
        now = comm.state();
    }
    if (now == NcclResult::success) return;
    fail(mesh,
         {CollectiveErrorCode::system,
          {rank},
          "NCCL on rank " + std::to_string(rank) + " cannot make its communicator: " + comm.describe(*now)},
         joining);
}

}  // namespace

std::optional<NcclSettings> read_nccl_settings(const Environment& environment,
                                               const CommunicatorOptions& options, int local_rank) {
    const auto value = [&](const char* name) {
        const auto found = environment.find(name);
        return found == environment.end() ? std::string() : found->second;
    };
    BackendChoice choice = options.backend;
    if (choice == BackendChoice::automatic) {
        const std::string wanted = value("DDPRUN_BACKEND");
        if (wanted != "" && wanted != "cpu" && wanted != "nccl") {
            fail_argument("DDPRUN_BACKEND='" + wanted + "' is neither cpu nor nccl");
        }
        choice = wanted == "nccl" ? BackendChoice::nccl : BackendChoice::cpu;
    }
    if (choice == BackendChoice::cpu) return std::nullopt;
    NcclSettings settings{value("DDPRUN_NCCL_LIBRARY"), value("DDPRUN_CUDA_LIBRARY"),
                          std::max(local_rank, 0)};
    const auto read_device = [&](const char* name) {
        const std::string text = value(name);
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), settings.device);
        if (error == std::errc() && end == text.data() + text.size() && settings.device >= 0) return;
        fail_argument(std::string(name) + "='" + text + "' is not the number of a device");
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
    auto comm = std::make_shared<NcclComm>(tools.nccl, tools.context);
    await(*comm, comm->begin(offers[0].id, peers->rank(), peers->world_size()), mesh, joining);
    return std::make_unique<NcclBackend>(tools.context, std::move(comm), std::move(peers));
}

}  // namespace ddprun
