#include "launcher/guardian/guardian_channel.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>

#include "rendezvous/base/check.hpp"
#include "rendezvous/base/error.hpp"
#include "rendezvous/codec/binary_codec.hpp"

namespace ddprun {

// A given stream is sent as its kind only.
template <>
struct BinaryForm<StreamTarget> {
    static constexpr int kGivenStream = 100;  // beside the values of Stdio

    static int out(const StreamTarget& target) {
        const auto* choice = std::get_if<Stdio>(&target);
        return choice != nullptr ? static_cast<int>(*choice) : kGivenStream;
    }
    static bool in(int kind, StreamTarget& target) {
        if (kind == kGivenStream) {
            target = GivenDescriptor{};
        } else {
            target = static_cast<Stdio>(kind);
        }
        return kind == kGivenStream || is_value(static_cast<Stdio>(kind));
    }
};

struct ExitForm {
    bool exited = true;
    int value = 0;
    bool core_dumped = false;
};
BOOST_DESCRIBE_STRUCT(ExitForm, (), (exited, value, core_dumped))

template <>
struct BinaryForm<ExitStatus> {
    static ExitForm out(const ExitStatus& status) {
        if (const auto* exited = std::get_if<Exited>(&status)) return {true, exited->code, false};
        const auto& [signal, core_dumped] = std::get<Signaled>(status);
        return {false, signal, core_dumped};
    }
    static bool in(const ExitForm& form, ExitStatus& status) {
        status = Signaled{form.value, form.core_dumped};
        if (form.exited) status = Exited{form.value};
        return true;
    }
};

}  // namespace ddprun

namespace ddprun {
inline namespace launch {
namespace {

template <class Message>
boost::system::result<Message> decode(std::string_view bytes) {
    Message message;
    if (!from_bytes<WideNumbers>(bytes, message)) return make_error_code(Errc::protocol_violation);
    return message;
}

template <class Spec>
auto streams(Spec& spec) {
    return std::array{&spec.standard_input, &spec.standard_output, &spec.standard_error};
}

}  // namespace

std::string encode_order(const GuardianOrder& order) { return to_bytes<WideNumbers>(order); }

std::string encode_event(const GuardianEvent& event) { return to_bytes<WideNumbers>(event); }

boost::system::result<GuardianOrder> decode_order(std::string_view bytes) {
    return decode<GuardianOrder>(bytes);
}

boost::system::result<GuardianEvent> decode_event(std::string_view bytes) {
    return decode<GuardianEvent>(bytes);
}

std::vector<int> given_descriptors(const WorkerSpec& spec) {
    std::vector<int> numbers;
    for (const StreamTarget* target : streams(spec)) {
        if (const auto* given = std::get_if<GivenDescriptor>(target)) numbers.push_back(given->fd);
    }
    return numbers;
}

bool give_descriptors(WorkerSpec& spec, std::span<const int> numbers) {
    std::size_t next = 0;
    for (StreamTarget* target : streams(spec)) {
        auto* given = std::get_if<GivenDescriptor>(target);
        if (given == nullptr) continue;
        if (next == numbers.size()) return false;
        given->fd = numbers[next++];
    }
    return next == numbers.size();
}

namespace {

// The first byte of a packet says where its message is.
constexpr char kInline = 'i';
constexpr char kInFile = 'f';  // in the last descriptor

constexpr std::size_t kMaxPacketDescriptors = GuardianChannel::kMaxDescriptors + 1;

// Returns 0 or an errno.
int make_file(std::string_view bytes, OwnedDescriptor& file) {
    file.reset(::memfd_create("ddprun-order", MFD_CLOEXEC));
    if (!file) return errno;
    for (std::size_t done = 0; done < bytes.size();) {
        const ssize_t count = ::write(file.get(), bytes.data() + done, bytes.size() - done);
        if (count < 0 && errno != EINTR) return errno;
        if (count > 0) done += static_cast<std::size_t>(count);
    }
    return 0;
}

std::string read_file(int fd) {
    struct stat status {};
    check(::fstat(fd, &status) == 0 && status.st_size >= 0 &&
              static_cast<std::size_t>(status.st_size) <= kMaxGuardianMessage,
          "a message between agent and guardian is too long");
    std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
    for (std::size_t done = 0; done < bytes.size();) {
        const ssize_t count = ::pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
        if (count < 0 && errno == EINTR) continue;
        check(count > 0, "a message between agent and guardian cannot be read");
        done += static_cast<std::size_t>(count);
    }
    return bytes;
}

}  // namespace

std::pair<GuardianChannel, GuardianChannel> GuardianChannel::make_pair() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        fail_errno(errno, "cannot make a socket for the guardian");
    }
    OwnedDescriptor first = above_standard_streams(OwnedDescriptor(ends[0]));
    OwnedDescriptor second = above_standard_streams(OwnedDescriptor(ends[1]));
    if (!first || !second) fail_errno(errno, "cannot make a socket for the guardian");
    return {GuardianChannel(std::move(first)), GuardianChannel(std::move(second))};
}

int GuardianChannel::send(std::string_view bytes, std::span<const int> descriptors) {
    check(bytes.size() <= kMaxGuardianMessage && descriptors.size() <= kMaxDescriptors,
          "a message between agent and guardian is too long");
    if (bytes.size() <= kMaxInline) {
        const int error_number = send_packet(std::string_view(&kInline, 1), bytes, descriptors);
        // The system's buffers may have been set smaller still.
        if (error_number != EMSGSIZE) return error_number;
    }
    OwnedDescriptor file;
    if (const int error_number = make_file(bytes, file)) return error_number;
    std::vector<int> all(descriptors.begin(), descriptors.end());
    all.push_back(file.get());
    return send_packet(std::string_view(&kInFile, 1), {}, all);
}

int GuardianChannel::send_packet(std::string_view head, std::string_view bytes,
                                 std::span<const int> descriptors) {
    std::array<iovec, 2> parts{iovec{const_cast<char*>(head.data()), head.size()},
                               iovec{const_cast<char*>(bytes.data()), bytes.size()}};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxPacketDescriptors)> control{};
    msghdr message = {};
    message.msg_iov = parts.data();
    message.msg_iovlen = parts.size();
    if (!descriptors.empty()) {
        message.msg_control = control.data();
        message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
        cmsghdr* header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
        std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
    }
    for (;;) {
        if (::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return 0;
        if (errno == ECONNRESET) return EPIPE;
        if (errno != EINTR) return errno;
    }
}

std::variant<GuardianChannel::Packet, GuardianChannel::Nothing, GuardianChannel::Lost>
GuardianChannel::receive() {
    if (!buffer_) buffer_ = std::make_unique_for_overwrite<char[]>(1 + kMaxInline);
    iovec part{buffer_.get(), 1 + kMaxInline};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxPacketDescriptors)> control;
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ssize_t count = 0;
    do {
        count = ::recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    } while (count < 0 && errno == EINTR);
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Nothing{};
    if (count <= 0) return Lost{};
    Packet packet;
    packet.incomplete = (message.msg_flags & MSG_CTRUNC) != 0;
    if (const cmsghdr* header = CMSG_FIRSTHDR(&message)) {
        const std::size_t received = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < received; ++i) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
            packet.descriptors.emplace_back(fd);
        }
    }
    if (buffer_[0] == kInline) {
        packet.bytes.assign(&buffer_[1], static_cast<std::size_t>(count) - 1);
    } else if (!packet.incomplete) {
        check(!packet.descriptors.empty(), "a message between agent and guardian has no file");
        packet.bytes = read_file(packet.descriptors.back().get());
        packet.descriptors.pop_back();
    }
    return packet;
}

struct WorkerLease::Shared {
    std::atomic<std::int64_t> end_ns{
        0};  // on the steady clock, which all processes of a machine share; 0: none
    std::atomic<std::int64_t> patience_ms{0};  // belongs to the last end, and for a moment to the next
};

WorkerLease::WorkerLease() {
    static_assert(std::atomic<std::int64_t>::is_always_lock_free, "a lock would be the process's own");
    void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) shared_.reset(new (memory) Shared);
}

void WorkerLease::Unmap::operator()(Shared* shared) const noexcept { ::munmap(shared, sizeof(Shared)); }

void WorkerLease::set_end(const std::optional<LeaseEnd>& end) noexcept {
    if (!shared_) return;
    if (end) shared_->patience_ms = end->patience.count();
    const auto since_start = end ? end->at.time_since_epoch() : std::chrono::steady_clock::duration(0);
    shared_->end_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(since_start).count();
}

std::optional<LeaseEnd> WorkerLease::end() const noexcept {
    const std::int64_t end_ns = shared_ ? shared_->end_ns.load() : 0;
    if (end_ns == 0) return std::nullopt;
    return LeaseEnd(LeaseEnd::TimePoint(std::chrono::nanoseconds(end_ns)),
                    std::chrono::milliseconds(shared_->patience_ms.load()));
}

}  // namespace launch
}  // namespace ddprun
