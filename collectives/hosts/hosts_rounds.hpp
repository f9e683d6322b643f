// HostsRounds: the part within a host of one call over several hosts (see HostsBackend), in rounds of staged
// data.
//
// A buffer is divided into slices, one for each rank of the host, given in bytes by place; they need not
// touch. All ranks of the host call the same functions in the same order, with the same slices. Between waits
// the group across hosts moves on with what it has under way.
//
// The channel must have an open, not yet announced call. Throws as ShmChannel, and LinkLost.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/arithmetic/wire_kind.hpp"
#include "collectives/shm/shm_channel.hpp"
#include "collectives/tcp/tcp_group.hpp"

namespace ddprun::inline detail {

class HostsRounds {
  public:
    // Borrows both.
    HostsRounds(ShmChannel& channel, TcpGroup& across) : channel_(channel), across_(across) {}

    // To be called before any of the others: all ranks of the host are in the same call when it returns. A
    // caller that begins with staged data saves a wait by leaving it out.
    void announce();
    // Reduces this rank's slice from the inputs of all ranks, as partial results at `partial`.
    void reduce(const PartialKind& kind, const std::byte* in, std::span<const Range> slices,
                std::byte* partial);
    // Gives all ranks all slices of `out`, of which each has its own.
    void hand_round(std::byte* out, std::span<const Range> slices);
    // Gives all ranks the bytes that the one in place `root` has.
    void broadcast(std::byte* data, std::size_t size, int root);
    // At the end of the call.
    void finish() { channel_.rounds_used(rounds_); }

  private:
    // stage(i, where to) then use(i, round) for all rounds i, staging one ahead.
    template <class Stage, class Use>
    void run(std::size_t rounds, Stage stage, Use use);
    int other(int i) const { return (channel_.rank() + i) % channel_.world_size(); }

    ShmChannel& channel_;
    TcpGroup& across_;
    std::uint64_t rounds_ = 0;  // used so far
    bool announced_ = false;
};

}  // namespace ddprun::inline detail
