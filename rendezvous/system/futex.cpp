#include "rendezvous/system/futex.hpp"

#include <sys/syscall.h>
#include <unistd.h>

namespace ddprun::inline base {

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

}  // namespace ddprun::inline base
