// ShmMapping is memory that several processes of one host have mapped.
//
// It is a memfd: never a file in any directory, not limited by the size of /dev/shm, and gone with the last
// process that maps it, however that ends. It is sealed against shrinking, so no access can ever fail with
// SIGBUS for its size.
//
// The others open it as /proc/PID/fd/N. That needs no listening socket which strangers could find, and the
// kernel lets in only who may inspect the process: the same user. Another process of that number, in another
// PID namespace, is told apart by the kind of file, its seals and its size; a caller that needs to be
// sure puts something into it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "rendezvous/system/owned_descriptor.hpp"

namespace ddprun::inline base {

// ShmOffer says where the creator's descriptor can be found. pid 0: there is none.
struct ShmOffer {
    std::int32_t pid = 0;
    std::int32_t descriptor = -1;
};

class ShmMapping {
  public:
    // Makes and maps `size` bytes of zeros, size > 0; nothing where the system refuses. /proc/PID/maps shows
    // `name`, which begins with "ddprun-". Keeps the descriptor until close_offer().
    static std::optional<ShmMapping> create(const char* name, std::size_t size);
    // Maps the one offered; nothing if it cannot be had or has another size.
    static std::optional<ShmMapping> open(const ShmOffer& offer, std::size_t size);

    ShmOffer offer() const noexcept;
    // The mapping stays.
    void close_offer() { descriptor_.reset(); }

    std::byte* base() const noexcept { return memory_.get(); }

  private:
    struct Unmap {
        std::size_t size;
        void operator()(std::byte* base) const noexcept;
    };

    ShmMapping(OwnedDescriptor descriptor, std::size_t size);
    bool map();

    OwnedDescriptor descriptor_;
    std::unique_ptr<std::byte, Unmap> memory_;
};

}  // namespace ddprun::inline base
