// Transfers: carries out sends, receives and groups of them as operations of a communicator, which take their
// turn and know no tags. Used by the thread that has the turn.
#pragma once

#include <span>
#include <vector>

#include "collectives/messages/messenger.hpp"
#include "collectives/tcp/tcp_backend.hpp"

namespace ddprun {
inline namespace detail {

class Transfers {
  public:
    // Transfers borrows both.
    Transfers(TcpBackend& tcp, Messenger& messenger) : tcp_(tcp), messenger_(messenger) {}

    // Carries out a task as Backend::run() does.
    void run(const Task& task);

  private:
    void carry_out(std::span<const Task> members, Messenger::Operations works,
                   PeerMesh::Operation& operation);
    static std::vector<int> open_peers(Messenger::Operations works);
    void await(MessageOperation& work, Messenger::Operations works, PeerMesh::Operation& operation);
    [[noreturn]] void fail(const Call& call, const MessageOperation& work,
                           const PeerMesh::Operation& operation);

    TcpBackend& tcp_;
    Messenger& messenger_;
    Deadline next_notice_{};
};

}  // namespace detail
}  // namespace ddprun
