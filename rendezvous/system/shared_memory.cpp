#include "rendezvous/system/shared_memory.hpp"

#include <fmt/core.h>

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <array>
#include <csignal>
#include <limits>
#include <string>
#include <utility>

namespace ddprun {
inline namespace base {

void leave_cpu_of(const std::atomic<std::uint32_t>& other, std::atomic<std::uint32_t>& own, bool stays) {
    constexpr std::chrono::milliseconds kStay{10};
    thread_local std::chrono::steady_clock::time_point last_move;
    const int here = ::sched_getcpu();
    const auto cpu = static_cast<std::uint32_t>(here + 1);
    if (own.load(std::memory_order_relaxed) != cpu) own.store(cpu, std::memory_order_relaxed);
    if (stays || here < 0 || other.load(std::memory_order_relaxed) != cpu) return;
    const auto now = std::chrono::steady_clock::now();
    cpu_set_t all;
    if (now - last_move < kStay || ::sched_getaffinity(0, sizeof(all), &all) != 0) return;
    last_move = now;
    cpu_set_t others = all;
    CPU_CLR(here, &others);
    // Both may be refused; then it stays where it is.
    if (CPU_COUNT(&others) > 0 && ::sched_setaffinity(0, sizeof(others), &others) == 0)
        static_cast<void>(::sched_setaffinity(0, sizeof(all), &all));
}

std::size_t page_size() {
    static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    return size;
}

RobustFutex::RobustFutex(std::atomic<std::uint32_t>& word) {
    head_.list.next = &entry_;
    entry_.next = &head_.list;
    head_.futex_offset = reinterpret_cast<char*>(&word) - reinterpret_cast<char*>(&entry_);
    head_.list_op_pending = nullptr;
    set_ = ::syscall(SYS_get_robust_list, 0, &before_, &before_size_) == 0 &&
           ::syscall(SYS_set_robust_list, &head_, sizeof(head_)) == 0;
}

RobustFutex::~RobustFutex() {
    if (set_) ::syscall(SYS_set_robust_list, before_, before_size_);
}

namespace {

constexpr char kLinkPrefix[] = "/memfd:ddprun-";
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// It is looked at before it is opened, because opening a device or a pipe of a stranger may have effects.
bool is_memfd(const std::string& path) {
    std::array<char, 256> target{};
    const ssize_t length = ::readlink(path.c_str(), target.data(), target.size() - 1);
    return length > 0 && std::string_view(target.data()).starts_with(kLinkPrefix);
}

// The kernel not only refuses more than the limit of a file's size (ulimit -f), but sends a signal that ends
// the program.
bool resize(int fd, std::size_t size) {
    sigset_t signal;
    sigset_t before;
    sigset_t pending;
    sigemptyset(&signal);
    sigaddset(&signal, SIGXFSZ);
    sigpending(&pending);
    ::pthread_sigmask(SIG_BLOCK, &signal, &before);
    const bool done = ::ftruncate(fd, static_cast<off_t>(size)) == 0;
    const timespec at_once{};
    // It is this thread's, so nobody else takes it.
    if (!done && sigismember(&pending, SIGXFSZ) == 0) ::sigtimedwait(&signal, nullptr, &at_once);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return done;
}

std::byte* attach(int number) {
    void* base = ::shmat(number, nullptr, 0);
    return base == MAP_FAILED ? nullptr : static_cast<std::byte*>(base);
}

}  // namespace

ShmMapping::ShmMapping(OwnedDescriptor descriptor, std::size_t size)
    : descriptor_(std::move(descriptor)), memory_(nullptr, Unmap{size}) {}

void ShmMapping::Unmap::operator()(std::byte* base) const noexcept { ::munmap(base, size); }

std::optional<ShmMapping> ShmMapping::create(const char* name, std::size_t size) {
    if (size > static_cast<std::size_t>(std::numeric_limits<off_t>::max())) return std::nullopt;
    OwnedDescriptor descriptor(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (!descriptor) return std::nullopt;
    const int fd = descriptor.get();
    ShmMapping mapping(std::move(descriptor), size);
    if (!resize(fd, size)) return std::nullopt;
    if (::fcntl(fd, F_ADD_SEALS, kSeals) != 0 || !mapping.map()) return std::nullopt;
    return mapping;
}

std::optional<ShmMapping> ShmMapping::open(const ShmOffer& offer, std::size_t least) {
    if (offer.pid == kShmByNumber) return open_by_number(offer.descriptor, least);
    if (offer.pid <= 0) return std::nullopt;
    const std::string path = fmt::format("/proc/{}/fd/{}", offer.pid, offer.descriptor);
    if (!is_memfd(path)) return std::nullopt;
    OwnedDescriptor descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!descriptor) return std::nullopt;
    const int fd = descriptor.get();
    // The size of what is not sealed yet may change after it was asked for. -1, all bits, is an error.
    const int seals = ::fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & kSeals) != kSeals) return std::nullopt;
    struct stat status {};
    if (::fstat(fd, &status) != 0 || status.st_size < static_cast<off_t>(least)) return std::nullopt;
    ShmMapping mapping(std::move(descriptor), static_cast<std::size_t>(status.st_size));
    if (!mapping.map()) {
        mapping.memory_.get_deleter().size = least;
        if (!mapping.map()) return std::nullopt;
    }
    mapping.close_offer();
    return mapping;
}

std::optional<ShmMapping> ShmMapping::create_by_number(std::size_t size) {
    const int number = ::shmget(IPC_PRIVATE, size, IPC_CREAT | SHM_NORESERVE | S_IRUSR | S_IWUSR);
    if (number < 0) return std::nullopt;
    ShmMapping mapping(OwnedDescriptor(), size);
    mapping.number_ = number;
    mapping.memory_.reset(attach(number));
    // Memory that cannot be marked to go would outlive the job.
    if (::shmctl(number, IPC_RMID, nullptr) != 0 || !mapping.memory_) return std::nullopt;
    return mapping;
}

std::optional<ShmMapping> ShmMapping::open_by_number(int number, std::size_t least) {
    shmid_ds status{};
    // As long as it is mapped the number is nobody else's; so it is looked at afterwards.
    ShmMapping mapping(OwnedDescriptor(), page_size());
    mapping.memory_.reset(attach(number));
    if (!mapping.memory_) return std::nullopt;
    if (::shmctl(number, IPC_STAT, &status) != 0) {
        ::shmdt(mapping.memory_.release());
        return std::nullopt;
    }
    mapping.memory_.get_deleter().size = status.shm_segsz;
    // The superuser gets at everybody's.
    if (status.shm_perm.cuid != ::geteuid() || status.shm_segsz < least) return std::nullopt;
    return mapping;
}

ShmOffer ShmMapping::offer() const noexcept {
    if (number_ >= 0) return {kShmByNumber, number_};
    return {static_cast<std::int32_t>(::getpid()), descriptor_.get()};
}

bool ShmMapping::map() {
    void* base = ::mmap(nullptr, size(), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_.get(), 0);
    if (base == MAP_FAILED) return false;
    memory_.reset(static_cast<std::byte*>(base));
    return true;
}

}  // namespace base
}  // namespace ddprun
