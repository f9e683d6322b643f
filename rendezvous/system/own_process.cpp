#include "rendezvous/system/own_process.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <new>
#include <vector>

namespace ddprun {
inline namespace base {
namespace {

using AtomicNumber = std::atomic<ProcessNumber>;

class Registry {
  public:
    static Registry& instance() {
        // Never destroyed: communicators in static storage end after everything that is.
        static const std::reference_wrapper<Registry> registry(*new Registry);
        return registry;
    }

    ProcessNumber number() noexcept {
        const ProcessNumber known = number_->load(std::memory_order_acquire);
        return known != 0 ? known : take_number();
    }

    int open(const std::function<int()>& make) {
        const std::lock_guard lock(mutex_);
        // It comes first, since it may fail.
        descriptors_.push_back(-1);
        const int fd = make();
        descriptors_.back() = fd;
        if (fd < 0) descriptors_.pop_back();
        return fd;
    }

    void close(int fd) noexcept {
        const std::lock_guard lock(mutex_);
        const auto found = std::find(descriptors_.rbegin(), descriptors_.rend(), fd);
        if (found == descriptors_.rend()) return;
        *found = descriptors_.back();
        descriptors_.pop_back();
        ::close(fd);
    }

    void keep(const void* object) noexcept {
        const std::lock_guard lock(mutex_);
        try {
            forgotten_.push_back(object);
        } catch (const std::bad_alloc&) {
            // Then it is merely lost.
        }
    }

  private:
    Registry() {
        number();
        // It fails only for lack of memory; then children keep the descriptors, as they would by clone().
        ::pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                         [] { instance().begin_child(); });
    }

    // The kernel makes this page zeros in every child, also in one that has no handlers run. The rest of it
    // is not used.
    static AtomicNumber* wiped_on_fork(AtomicNumber* otherwise) noexcept {
        const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
        void* page = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED) return otherwise;
        // If it is refused, the handler is all there is.
        static_cast<void>(::madvise(page, size, MADV_WIPEONFORK));
        return new (page) AtomicNumber(0);
    }

    ProcessNumber take_number() noexcept {
        // Several threads may come here at once: one of their numbers is everybody's.
        const ProcessNumber next = last_.fetch_add(1) + 1;
        ProcessNumber none = 0;
        return number_->compare_exchange_strong(none, next) ? next : none;
    }

    // It runs in the child, whose only thread has the lock, and calls nothing but what handlers may.
    void begin_child() noexcept {
        const int error = errno;
        for (const int fd : descriptors_) ::close(fd);
        descriptors_.clear();
        number_->store(0, std::memory_order_release);
        mutex_.unlock();
        errno = error;
    }

    std::mutex mutex_;              // guards the vectors; held while a process forks
    std::vector<int> descriptors_;  // made in this process, and to be closed in its children
    std::vector<const void*> forgotten_;
    AtomicNumber last_{0};  // the last number given, here and in all processes that this one comes from
    AtomicNumber fallback_{0};
    AtomicNumber* const number_ = wiped_on_fork(&fallback_);  // this process's; 0: none yet
};

}  // namespace

ProcessNumber this_process() noexcept { return Registry::instance().number(); }

void forget(const void* object) noexcept { Registry::instance().keep(object); }

ProcessDescriptor::ProcessDescriptor(const std::function<int()>& open)
    : fd_(Registry::instance().open(open)), process_(this_process()) {}

ProcessDescriptor& ProcessDescriptor::operator=(ProcessDescriptor&& other) noexcept {
    if (this == &other) return *this;
    close();
    fd_ = std::exchange(other.fd_, -1);
    process_ = other.process_;
    return *this;
}

// The number may be another file's by now in a child.
void ProcessDescriptor::close() noexcept {
    const int fd = std::exchange(fd_, -1);
    if (fd >= 0 && process_ == this_process()) Registry::instance().close(fd);
}

void open_missing_streams() noexcept {
    // A file gets the lowest number that is free.
    for (int fd = 0; fd >= 0 && fd <= STDERR_FILENO;) {
        fd = ::open("/dev/null", O_RDWR);
        if (fd > STDERR_FILENO) ::close(fd);
    }
}

}  // namespace base
}  // namespace ddprun
