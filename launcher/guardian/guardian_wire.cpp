#include "launcher/guardian/guardian_wire.hpp"

#include <array>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "rendezvous/system/error.hpp"

namespace ddprun {
namespace {

constexpr std::int64_t kGivenStream = 100;  // beside the values of Stdio

class Writer {
  public:
    template <class T>
    requires std::integral<T> || std::is_enum_v<T>
    void operator()(const T& value) {
        const auto number = static_cast<std::int64_t>(value);
        bytes_.append(reinterpret_cast<const char*>(&number), sizeof number);
    }
    void operator()(const std::chrono::milliseconds& duration) { (*this)(duration.count()); }
    void operator()(const std::string& text) {
        (*this)(text.size());
        bytes_ += text;
    }
    void operator()(const StreamTarget& target) {
        const auto* choice = std::get_if<Stdio>(&target);
        (*this)(choice != nullptr ? static_cast<std::int64_t>(*choice) : kGivenStream);
    }
    void operator()(const ExitStatus& status) {
        const auto* exited = std::get_if<Exited>(&status);
        (*this)(exited != nullptr);
        (*this)(exited != nullptr ? exited->code : std::get<Signaled>(status).signal);
        (*this)(exited == nullptr && std::get<Signaled>(status).core_dumped);
    }
    void operator()(const Environment& environment) {
        (*this)(environment.size());
        for (const auto& [name, value] : environment) {
            (*this)(name);
            (*this)(value);
        }
    }
    template <class T>
    void operator()(const std::vector<T>& items) {
        (*this)(items.size());
        for (const T& item : items) (*this)(item);
    }
    template <class T>
    requires std::is_class_v<T>
    void operator()(const T& message) { fields(*this, message); }

    std::string take() { return std::move(bytes_); }

  private:
    std::string bytes_;
};

class Reader {
  public:
    explicit Reader(std::string_view bytes) : rest_(bytes) {}

    template <class T>
    requires std::integral<T> || std::is_enum_v<T>
    void operator()(T& value) { value = static_cast<T>(number()); }
    void operator()(std::chrono::milliseconds& duration) { duration = std::chrono::milliseconds(number()); }
    void operator()(std::string& text) {
        const auto size = static_cast<std::size_t>(number());
        if (!has(size)) return;
        text = rest_.substr(0, size);
        rest_.remove_prefix(size);
    }
    void operator()(StreamTarget& target) {
        const auto kind = number();
        failed_ = failed_ || (kind != kGivenStream && kind != static_cast<int>(Stdio::inherit) &&
                              kind != static_cast<int>(Stdio::null));
        if (kind == kGivenStream) {
            target = GivenDescriptor{};
        } else {
            target = static_cast<Stdio>(kind);
        }
    }
    void operator()(ExitStatus& status) {
        const bool exited = number() != 0;
        const int value = static_cast<int>(number());
        const bool core_dumped = number() != 0;
        status = exited ? ExitStatus(Exited{value}) : ExitStatus(Signaled{value, core_dumped});
    }
    void operator()(Environment& environment) {
        for (auto count = items(); count > 0 && !failed_; --count) {
            std::string name;
            std::string value;
            (*this)(name);
            (*this)(value);
            environment.emplace_hint(environment.end(), std::move(name), std::move(value));
        }
    }
    template <class T>
    void operator()(std::vector<T>& list) {
        for (auto count = items(); count > 0 && !failed_; --count) (*this)(list.emplace_back());
    }
    template <class T>
    requires std::is_class_v<T>
    void operator()(T& message) { fields(*this, message); }

    bool complete() const { return !failed_ && rest_.empty(); }

  private:
    bool has(std::size_t size) {
        failed_ = failed_ || size > rest_.size();
        return !failed_;
    }
    std::int64_t number() {
        std::int64_t value = 0;
        if (!has(sizeof value)) return 0;
        std::memcpy(&value, rest_.data(), sizeof value);
        rest_.remove_prefix(sizeof value);
        return value;
    }
    // Every item has at least one number.
    std::size_t items() {
        const auto count = static_cast<std::size_t>(number());
        failed_ = failed_ || count > rest_.size() / sizeof(std::int64_t);
        return failed_ ? 0 : count;
    }

    std::string_view rest_;
    bool failed_ = false;
};

// One list for both directions. A structured binding names every member, so that a new one does not compile
// before it is on its way here too.
template <class Visitor, class Message>
void fields(Visitor& visit, Message& message) {
    using T = std::remove_const_t<Message>;
    if constexpr (std::is_same_v<T, WorkerSpec>) {
        auto& [argv, environment, rank, local_rank, input, output, error, ignore_hangup, takes_terminal] =
            message;
        visit(argv), visit(environment), visit(rank), visit(local_rank);
        visit(input), visit(output), visit(error), visit(ignore_hangup), visit(takes_terminal);
    } else if constexpr (std::is_same_v<T, StartFailure>) {
        auto& [error_number, text, exit_code] = message;
        visit(error_number), visit(text), visit(exit_code);
    } else if constexpr (std::is_same_v<T, Survivor>) {
        auto& [pid, state, wchan, command] = message;
        visit(pid), visit(state), visit(wchan), visit(command);
    } else if constexpr (std::is_same_v<T, SweepResult>) {
        auto& [killed, survivors, nothing_left] = message;
        visit(killed), visit(survivors), visit(nothing_left);
    } else if constexpr (std::is_same_v<T, SignalWorker>) {
        auto& [worker, signal, scope] = message;
        visit(worker), visit(signal), visit(scope);
    } else if constexpr (std::is_same_v<T, ForgetWorker> || std::is_same_v<T, SweepAll> ||
                         std::is_same_v<T, GroupGone>) {
        auto& [only] = message;
        visit(only);
    } else {
        auto& [first, second] = message;
        visit(first), visit(second);
    }
}

template <class Variant>
std::string encode(const Variant& message) {
    Writer write;
    write(message.index());
    std::visit([&write](const auto& alternative) { write(alternative); }, message);
    return write.take();
}

template <class Variant, std::size_t index>
bool decode_alternative(Reader& read, Variant& message) {
    read(message.template emplace<index>());
    return read.complete();
}

template <class Variant, std::size_t... index>
boost::system::result<Variant> decode(std::string_view bytes, std::index_sequence<index...>) {
    using Decode = bool (*)(Reader&, Variant&);
    static constexpr std::array<Decode, sizeof...(index)> kDecode{&decode_alternative<Variant, index>...};
    Reader read(bytes);
    std::size_t kind = 0;
    read(kind);
    Variant message;
    if (kind >= kDecode.size() || !kDecode[kind](read, message)) {
        return make_error_code(Errc::protocol_violation);
    }
    return message;
}

template <class Spec>
auto streams(Spec& spec) {
    return std::array{&spec.standard_input, &spec.standard_output, &spec.standard_error};
}

}  // namespace

std::string encode_order(const GuardianOrder& order) { return encode(order); }

std::string encode_event(const GuardianEvent& event) { return encode(event); }

boost::system::result<GuardianOrder> decode_order(std::string_view bytes) {
    return decode<GuardianOrder>(bytes, std::make_index_sequence<std::variant_size_v<GuardianOrder>>());
}

boost::system::result<GuardianEvent> decode_event(std::string_view bytes) {
    return decode<GuardianEvent>(bytes, std::make_index_sequence<std::variant_size_v<GuardianEvent>>());
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

}  // namespace ddprun
