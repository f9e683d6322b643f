#include "collectives/shm_segment.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string>
#include <utility>

namespace ddprun {
namespace {

constexpr char kName[] = "ddprun-collectives";
constexpr char kLinkPrefix[] = "/memfd:ddprun-collectives";
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

ShmHeader header_of(const Membership& membership) {
    ShmHeader header;
    header.world_size = static_cast<std::uint32_t>(membership.world_size());
    header.generation = membership.generation;
    header.communicator = membership.communicator;
    header.nonce = membership.nonce;
    return header;
}

bool is_of(const ShmHeader& header, const Membership& membership) {
    const ShmHeader wanted = header_of(membership);
    return header.magic == wanted.magic && header.version == wanted.version &&
           header.world_size == wanted.world_size && header.generation == wanted.generation &&
           header.communicator == wanted.communicator && header.nonce == wanted.nonce;
}

// Looked at before it is opened, because opening a device or a pipe of a stranger may have effects.
bool is_memfd(const std::string& path) {
    std::array<char, 256> target{};
    const ssize_t length = ::readlink(path.c_str(), target.data(), target.size() - 1);
    return length > 0 && std::string_view(target.data()).starts_with(kLinkPrefix);
}

}  // namespace

ShmSegment::ShmSegment(FileDescriptor descriptor, int world_size)
    : descriptor_(std::move(descriptor)), layout_(world_size), world_size_(world_size) {}

ShmSegment::ShmSegment(ShmSegment&& other) noexcept
    : descriptor_(std::move(other.descriptor_)),
      layout_(other.layout_),
      world_size_(other.world_size_),
      base_(std::exchange(other.base_, nullptr)) {}

ShmSegment& ShmSegment::operator=(ShmSegment&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    std::swap(layout_, other.layout_);
    std::swap(world_size_, other.world_size_);
    std::swap(base_, other.base_);
    return *this;
}

ShmSegment::~ShmSegment() {
    if (base_ != nullptr) ::munmap(base_, layout_.size());
}

std::optional<ShmSegment> ShmSegment::create(const Membership& membership) {
    const int ranks = membership.local_world_size();
    if (ranks > kShmMaxRanks) return std::nullopt;
    FileDescriptor descriptor(::memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!descriptor) return std::nullopt;
    ShmSegment segment(std::move(descriptor), ranks);
    const int fd = segment.descriptor_.get();
    if (::ftruncate(fd, static_cast<off_t>(segment.layout_.size())) != 0) return std::nullopt;
    if (::fcntl(fd, F_ADD_SEALS, kSeals) != 0 || !segment.map()) return std::nullopt;
    segment.at<ShmHeader>(0) = header_of(membership);
    return segment;
}

std::optional<ShmSegment> ShmSegment::open(const ShmOffer& offer, const Membership& membership) {
    const int ranks = membership.local_world_size();
    if (offer.pid <= 0 || ranks > kShmMaxRanks) return std::nullopt;
    const std::string path = "/proc/" + std::to_string(offer.pid) + "/fd/" + std::to_string(offer.descriptor);
    if (!is_memfd(path)) return std::nullopt;
    FileDescriptor descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!descriptor) return std::nullopt;
    ShmSegment segment(std::move(descriptor), ranks);
    const int fd = segment.descriptor_.get();
    struct stat status {};
    if (::fstat(fd, &status) != 0 || status.st_size != static_cast<off_t>(segment.layout_.size()))
        return std::nullopt;
    if ((::fcntl(fd, F_GET_SEALS) & kSeals) != kSeals || !segment.map()) return std::nullopt;
    if (!is_of(segment.at<ShmHeader>(0), membership)) return std::nullopt;
    segment.close_offer();
    return segment;
}

ShmOffer ShmSegment::offer() const noexcept {
    return {static_cast<std::int32_t>(::getpid()), descriptor_.get()};
}

bool ShmSegment::map() {
    void* base = ::mmap(nullptr, layout_.size(), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_.get(), 0);
    if (base == MAP_FAILED) return false;
    base_ = static_cast<std::byte*>(base);
    return true;
}

}  // namespace ddprun
