// ShmSegment: the memory shared by the ranks of one communicator on one host: a mapping laid out as
// shm_layout.hpp says, known by the communicator's nonce in it.
#pragma once

#include <optional>

#include "collectives/shm/shm_layout.hpp"
#include "collectives/wire/membership.hpp"
#include "rendezvous/system/shm_mapping.hpp"

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

}  // namespace ddprun::inline detail
