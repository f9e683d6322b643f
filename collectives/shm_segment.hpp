// ShmSegment: the memory shared by the ranks of one communicator on one host.
//
// It is a memfd: never a file in any directory, not limited by the size of /dev/shm, and gone with the last
// process that maps it, however that ends. It is sealed against shrinking, so no access can ever fail with
// SIGBUS for its size.
//
// The others open it as /proc/PID/fd/N. That needs no listening socket which strangers could find, and the
// kernel lets in only who may inspect the process: the same user. Another process of that number, in another
// PID namespace, is told apart by the kind of file, its seals, and the communicator's nonce in it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <span>

#include "collectives/membership.hpp"
#include "collectives/shm_layout.hpp"
#include "collectives/tcp_link.hpp"

namespace ddprun {

// Where the creator's descriptor can be found. pid 0: there is none.
struct ShmOffer {
    std::int32_t pid = 0;
    std::int32_t descriptor = -1;
};

class ShmSegment {
  public:
    // Makes and maps it; nothing where the system refuses. Keeps the descriptor until close_offer().
    static std::optional<ShmSegment> create(const Membership& membership);
    // Maps the one offered; nothing if it cannot be had or is not of this communicator.
    static std::optional<ShmSegment> open(const ShmOffer& offer, const Membership& membership);

    ShmSegment(ShmSegment&& other) noexcept;
    ShmSegment& operator=(ShmSegment&& other) noexcept;
    ~ShmSegment();

    ShmOffer offer() const noexcept;
    // The mapping stays.
    void close_offer() { descriptor_ = FileDescriptor(); }

    const ShmLayout& layout() const noexcept { return layout_; }
    int world_size() const noexcept { return world_size_; }

    ShmFlag& flag(int rank, int bank) const { return at<ShmFlag>(layout_.flag(rank, bank)); }
    ShmCallRecord& record(int rank, int bank) const { return at<ShmCallRecord>(layout_.record(rank, bank)); }
    ShmProgress& progress(int rank) const { return at<ShmProgress>(layout_.progress(rank)); }
    ShmBell& bell(int rank) const { return at<ShmBell>(layout_.bell(rank)); }
    ShmCpus& cpus(int rank) const { return at<ShmCpus>(layout_.cpus(rank)); }
    ShmEnd& end() const { return at<ShmEnd>(layout_.end()); }
    ShmLife& life(int rank) const { return at<ShmLife>(layout_.life(rank)); }
    std::byte* slot(int rank, int bank) const { return base_ + layout_.slot(rank, bank); }
    std::byte* stage(int rank, int buffer) const { return base_ + layout_.stage(rank, buffer); }

  private:
    ShmSegment(FileDescriptor descriptor, int world_size);
    bool map();
    template <class T>
    T& at(std::size_t offset) const {
        return *reinterpret_cast<T*>(base_ + offset);
    }

    FileDescriptor descriptor_;
    ShmLayout layout_;
    int world_size_;
    std::byte* base_ = nullptr;
};

}  // namespace ddprun
