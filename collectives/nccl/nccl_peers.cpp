#include "collectives/nccl/nccl_peers.hpp"

#include <algorithm>

#include "collectives/wire/membership.hpp"

namespace ddprun {
inline namespace detail {
namespace {

// Messages that a rank sent before it left may still be on their way.
constexpr std::chrono::milliseconds kLeftTimeout{2000};

}  // namespace

NcclPeers::NcclPeers(std::unique_ptr<TcpBackend> tcp, std::optional<ShmSegment> segment,
                     std::chrono::milliseconds operation_timeout)
    : segment_(std::move(segment)), tcp_(std::move(tcp)), operation_timeout_(operation_timeout) {
    if (!segment_) return;
    const RankGroup local = ranks_of_host(tcp_->membership());
    shm_lifeline_.emplace(*segment_, local.index, local.ranks, tcp_->mesh().lifeline());
}

Call NcclPeers::begin(Call call) {
    if (tcp_) return tcp_->begin(call).call;
    call.sequence = ++sequence_;
    if (ended_) throw error_of(*verdict(), call);
    return call;
}

void NcclPeers::exchange(const Task& task) {
    const std::lock_guard lock(turn_);
    tcp_->run(task);
}

void NcclPeers::on_news(std::function<void()> hook) {
    if (tcp_) return tcp_->mesh().on_news(std::move(hook));
    const std::lock_guard lock(mutex_);
    hook_ = std::move(hook);
}

std::optional<Verdict> NcclPeers::verdict() const {
    if (tcp_) return tcp_->mesh().verdict();
    const std::lock_guard lock(mutex_);
    return verdict_;
}

Verdict NcclPeers::declare(const Verdict& verdict) {
    if (tcp_) return tcp_->mesh().declare(verdict);
    const std::lock_guard lock(mutex_);
    if (!verdict_) verdict_ = verdict;
    ended_ = true;
    if (hook_) hook_();
    return *verdict_;
}

void NcclPeers::leave() {
    if (tcp_) tcp_->mesh().leave();
}

std::vector<int> NcclPeers::leave_together(Deadline deadline) {
    if (tcp_) {
        const std::lock_guard lock(turn_);
        return tcp_->mesh().leave_together(deadline);
    }
    if (const auto ended = verdict()) throw error_of(*ended, "finalize");
    return {};
}

template <class Body>
bool NcclPeers::ask(const Call& call, Body body) {
    const std::unique_lock lock(turn_, std::try_to_lock);
    if (!lock) return false;
    try {
        body(tcp_->mesh(),
             PeerMesh::Operation{call, Deadline::max(), {operation_timeout_, "operation_timeout"}});
    } catch (const CollectiveError&) {
        // The mesh has ended; its verdict is the answer.
    }
    return true;
}

bool NcclPeers::check_present(const Call& call, const std::vector<int>& peers, Deadline started) {
    if (!tcp_) return true;
    return ask(call, [&](PeerMesh& mesh, const PeerMesh::Operation& operation) {
        mesh.throw_if_ended(operation);
        if (Deadline::clock::now() <= started + kLeftTimeout) return;
        const auto has_left = [&](int peer) { return mesh.lifeline().left_after(peer).has_value(); };
        if (!peers.empty() && std::all_of(peers.begin(), peers.end(), has_left)) {
            mesh.throw_if_left(peers.front(), operation);
        }
    });
}

bool NcclPeers::check_agreement(const Call& call) {
    if (!tcp_ || is_point_to_point(call.operation)) return true;
    return ask(call, [](PeerMesh& mesh, const PeerMesh::Operation& operation) {
        mesh.throw_if_mismatched(operation);
    });
}

bool NcclPeers::blame(const Call& call, const std::vector<int>& peers, std::chrono::milliseconds length) {
    if (tcp_) {
        return ask(call, [&](PeerMesh& mesh, PeerMesh::Operation operation) {
            operation.timeout.length = length;
            mesh.fail_late(peers, operation);
        });
    }
    declare(blame_for_deadline({call}, call, 0, {}, {length, "operation_timeout"}));
    return true;
}

}  // namespace detail
}  // namespace ddprun
