#include "collectives/call/backend.hpp"

#include <fmt/core.h>
#include <sys/mman.h>

#include "collectives/error.hpp"

namespace ddprun {
inline namespace detail {

SharedMemory private_memory(std::size_t bytes) {
    if (bytes == 0) return {};
    void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        throw CollectiveError(CollectiveErrorCode::system,
                              fmt::format("allocate: no memory for {} bytes", bytes), {}, "allocate");
    }
    const auto unmap = [bytes](std::byte* begin) { ::munmap(begin, bytes); };
    return {std::shared_ptr<std::byte>(static_cast<std::byte*>(memory), unmap), bytes};
}

}  // namespace detail
}  // namespace ddprun
