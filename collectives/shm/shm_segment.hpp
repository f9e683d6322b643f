// ShmSegment: the memory shared by the ranks of one communicator on one host: a mapping laid out as
// shm_layout.hpp says, known by the communicator's nonce in it.
#pragma once

#include <optional>

#include "collectives/shm/shm_layout.hpp"
#include "collectives/tcp/peer_mesh.hpp"
#include "collectives/wire/membership.hpp"
#include "rendezvous/system/shared_memory.hpp"

namespace ddprun::inline detail {

class ShmSegment {
  public:
    // Makes and maps it; nothing where the system refuses. Keeps the descriptor until close_offer().
    static std::optional<ShmSegment> create(const Membership& membership);
    // Maps the one offered; nothing if it cannot be had or is not of this communicator.
    static std::optional<ShmSegment> open(const ShmOffer& offer, const Membership& membership);

    ShmOffer offer() const noexcept { return mapping_.offer(); }
    // The mapping stays.
    void close_offer() { mapping_.close_offer(); }

    const ShmLayout& layout() const noexcept { return layout_; }
    int world_size() const noexcept { return world_size_; }

    ShmFlag& flag(int rank, int bank) const { return at<ShmFlag>(layout_.flag(rank, bank)); }
    ShmCallRecord& record(int rank, int bank) const { return at<ShmCallRecord>(layout_.record(rank, bank)); }
    ShmProgress& progress(int rank) const { return at<ShmProgress>(layout_.progress(rank)); }
    ShmWakeup& wakeup(int rank) const { return at<ShmWakeup>(layout_.wakeup(rank)); }
    ShmCpus& cpus(int rank) const { return at<ShmCpus>(layout_.cpus(rank)); }
    ShmEnd& end() const { return at<ShmEnd>(layout_.end()); }
    ShmLife& life(int rank) const { return at<ShmLife>(layout_.life(rank)); }
    std::byte* slot(int rank, int bank) const { return mapping_.base() + layout_.slot(rank, bank); }
    std::byte* stage(int rank, int buffer) const { return mapping_.base() + layout_.stage(rank, buffer); }

  private:
    ShmSegment(ShmMapping mapping, const ShmLayout& layout, int world_size)
        : mapping_(std::move(mapping)), layout_(layout), world_size_(world_size) {}
    template <class T>
    T& at(std::size_t offset) const {
        return *reinterpret_cast<T*>(mapping_.base() + offset);
    }

    ShmMapping mapping_;
    ShmLayout layout_;
    int world_size_;
};

// Shm handover: the ranks of a new communicator agree whether those of each host share memory, and map it.
//
// Two all-gathers over TCP: the offer of the lowest rank of each host, then whether each rank could map it.
// So all ranks decide alike, whatever a single one may or may not do, and a rank that dies meanwhile is found
// by the mesh as always.

// Called by all ranks of a mesh, as part of making the communicator. `wanted` is this rank's own wish; one
// rank without it decides for all. Nothing if any rank could not. Throws as PeerMesh::wait does.
std::optional<ShmSegment> hand_over_segment(PeerMesh& mesh, bool wanted, const PeerMesh::Operation& joining);

}  // namespace ddprun::inline detail
