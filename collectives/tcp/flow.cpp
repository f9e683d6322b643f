#include "collectives/tcp/flow.hpp"

#include <fmt/core.h>
#include <sched.h>

#include <array>
#include <vector>

namespace ddprun::inline detail {
namespace {

// Being woken takes 20 us and more on a virtual machine.
constexpr std::chrono::microseconds kFlowSpin{50};

// Whether to look again at once, because what is awaited may come sooner than a sleeper would wake.
class SpinLimit {
  public:
    explicit SpinLimit(bool spins) : spins_(spins) {}

    void moved() noexcept { idle_ = false; }
    bool looks_again() {
        if (!spins_) return false;
        const auto now = Deadline::clock::now();
        if (!idle_) since_ = now;
        idle_ = true;
        // The peer may have been put on this rank's CPU, where it runs only if given the chance.
        if (now - since_ < kFlowSpin) return ::sched_yield() == 0;
        idle_ = false;
        return false;
    }

  private:
    bool spins_;
    bool idle_ = false;
    Deadline since_{};
};

}  // namespace

void run_flows(PeerMesh& mesh, std::span<Flow* const> flows, const PeerMesh::Operation& operation) {
    SpinLimit spin_limit(mesh.spins());
    // Most operations have a flow for each lane, and allocate nothing.
    std::array<Awaited, kMaxLanes> few;
    std::vector<Awaited> many(flows.size() > few.size() ? flows.size() : 0);
    const std::span<Awaited> awaited = many.empty() ? std::span<Awaited>(few) : std::span<Awaited>(many);
    while (true) {
        bool moved = false;
        std::size_t open = 0;
        for (Flow* flow : flows) {
            if (flow->done()) continue;
            moved = flow->move() || moved;
            if (!flow->done()) awaited[open++] = flow->awaited();
        }
        if (open == 0) return;
        if (moved) {
            spin_limit.moved();
        } else if (!spin_limit.looks_again()) {
            mesh.wait(awaited.first(open), operation);
        }
    }
}

void require_same_call(PeerMesh& mesh, const MessageReader& reader, const Call& call,
                       const PeerMesh::Operation& operation) {
    const auto theirs = reader.header();
    const int peer = reader.link().peer();
    if (!theirs) {
        mesh.fail({CollectiveErrorCode::system,
                   {peer},
                   fmt::format("rank {} sent bytes that are no message", peer)},
                  operation);
    }
    if (*theirs == on_wire(call)) return;
    mesh.fail_mismatch(call, peer, *theirs, operation);
}

}  // namespace ddprun::inline detail
