#include "collectives/nccl/nccl_join.hpp"

#include <fmt/core.h>

#include <array>
#include <cstring>
#include <string_view>
#include <system_error>
#include <vector>

#include "collectives/nccl/nccl_backend.hpp"
#include "collectives/nccl/nccl_settings.hpp"
#include "collectives/tcp/transfer.hpp"

namespace ddprun::inline detail {
namespace {

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

}  // namespace

std::unique_ptr<Backend> join_nccl(std::unique_ptr<NcclPeers> peers, const NcclSettings& settings,
                                   const PeerMesh::Operation& joining) {
    PeerMesh* const mesh = peers->mesh();
    Tools tools;
    const auto offers = exchange_offers(mesh, make_offer(settings, peers->rank(), tools), joining);
    if (const auto verdict = objection(offers)) fail(mesh, *verdict, joining);
    std::optional<NcclRings> rings;
    if (settings.reproducible) rings.emplace(tools.nccl->version);
    auto comm = make_comm(tools, *peers, offers[0].id, joining);
    return std::make_unique<NcclBackend>(tools.context, std::move(comm), std::move(peers));
}

}  // namespace ddprun::inline detail
