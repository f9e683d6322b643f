#include "collectives/liveness/lifeline_frame.hpp"

#include <algorithm>
#include <cstring>

namespace ddprun {
namespace {

enum class Kind : std::uint8_t { verdict = 0, left = 1, inquiry = 2, progress = 3, question = 4 };

constexpr std::size_t kPrefixSize = 4;

template <class T>
void put(std::string& bytes, T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Reads from the front of a payload; a payload that is too short makes it fail for good.
class Cursor {
  public:
    explicit Cursor(std::string_view bytes) : bytes_(bytes) {}

    template <class T>
    T take() {
        T value{};
        if (bytes_.size() < sizeof(T)) {
            failed_ = true;
            return value;
        }
        std::memcpy(&value, bytes_.data(), sizeof(T));
        bytes_.remove_prefix(sizeof(T));
        return value;
    }

    std::string_view rest() const noexcept { return bytes_; }
    bool complete() const noexcept { return !failed_ && bytes_.empty(); }
    bool failed() const noexcept { return failed_; }

  private:
    std::string_view bytes_;
    bool failed_ = false;
};

std::string payload_of(const Verdict& verdict) {
    std::string payload;
    const std::size_t culprits = std::min(verdict.culprits.size(), kMaxNoticeCulprits);
    put(payload, static_cast<std::uint8_t>(verdict.code));
    put(payload, static_cast<std::uint8_t>(culprits));
    for (std::size_t i = 0; i < culprits; ++i) put(payload, static_cast<std::int32_t>(verdict.culprits[i]));
    payload += std::string_view(verdict.text).substr(0, kMaxNoticeText);
    return payload;
}

std::string payload_of(const LeftNotice& left) {
    std::string payload;
    put(payload, left.rank);
    put(payload, left.sequence);
    return payload;
}

std::string payload_of(const InquiryNotice& inquiry) {
    std::string payload;
    put(payload, inquiry.inquiry);
    put(payload, inquiry.sequence);
    return payload;
}

void put_call(std::string& payload, const Call& call) {
    put(payload, call.operation);
    put(payload, call.type);
    put(payload, call.reduce);
    put(payload, call.compression);
    put(payload, call.root);
    put(payload, call.count);
    put(payload, call.sequence);
}

std::string payload_of(const ProgressNotice& progress) {
    std::string payload;
    put(payload, progress.rank);
    put(payload, progress.inquiry);
    put_call(payload, progress.call);
    put_call(payload, progress.asked);
    return payload;
}

std::string payload_of(const QuestionNotice& question) {
    std::string payload;
    put(payload, question.rank);
    put(payload, question.round);
    put_call(payload, question.call);
    return payload;
}

std::optional<Notice> read_verdict(std::string_view payload) {
    Cursor cursor(payload);
    Verdict verdict;
    const auto code = cursor.take<std::uint8_t>();
    const auto culprits = cursor.take<std::uint8_t>();
    for (int i = 0; i < culprits; ++i) verdict.culprits.push_back(cursor.take<std::int32_t>());
    if (cursor.failed() || code > static_cast<std::uint8_t>(CollectiveErrorCode::system)) return std::nullopt;
    verdict.code = static_cast<CollectiveErrorCode>(code);
    verdict.text = cursor.rest();
    return verdict;
}

// Of unknown values `known` becomes false.
Call take_call(Cursor& cursor, bool& known) {
    Call call;
    call.operation = cursor.take<Operation>();
    call.type = cursor.take<DataType>();
    call.reduce = cursor.take<ReduceOp>();
    call.compression = cursor.take<Compression>();
    call.root = cursor.take<std::int32_t>();
    call.count = cursor.take<std::uint64_t>();
    call.sequence = cursor.take<std::uint64_t>();
    known = known && is_known(call.operation) && is_known(call.type) && is_known(call.reduce) &&
            is_known(call.compression);
    return call;
}

std::optional<Notice> read_progress(std::string_view payload) {
    Cursor cursor(payload);
    bool known = true;
    ProgressNotice progress{cursor.take<std::int32_t>(), cursor.take<std::uint32_t>(), {}, {}};
    progress.call = take_call(cursor, known);
    progress.asked = take_call(cursor, known);
    return cursor.complete() && known ? std::optional<Notice>(progress) : std::nullopt;
}

std::optional<Notice> read_question(std::string_view payload) {
    Cursor cursor(payload);
    bool known = true;
    QuestionNotice question{cursor.take<std::int32_t>(), cursor.take<std::uint32_t>(), {}};
    question.call = take_call(cursor, known);
    return cursor.complete() && known ? std::optional<Notice>(question) : std::nullopt;
}

std::optional<Notice> read_payload(std::uint8_t kind, std::string_view payload) {
    Cursor cursor(payload);
    if (kind == static_cast<std::uint8_t>(Kind::verdict)) return read_verdict(payload);
    if (kind == static_cast<std::uint8_t>(Kind::progress)) return read_progress(payload);
    if (kind == static_cast<std::uint8_t>(Kind::question)) return read_question(payload);
    if (kind == static_cast<std::uint8_t>(Kind::left)) {
        LeftNotice left{cursor.take<std::int32_t>(), cursor.take<std::uint64_t>()};
        if (cursor.complete()) return left;
    }
    if (kind == static_cast<std::uint8_t>(Kind::inquiry)) {
        InquiryNotice inquiry{cursor.take<std::uint32_t>(), cursor.take<std::uint64_t>()};
        if (cursor.complete()) return inquiry;
    }
    return std::nullopt;
}

}  // namespace

std::string encode(const Notice& notice) {
    const std::string payload = std::visit([](const auto& n) { return payload_of(n); }, notice);
    std::string bytes;
    put(bytes, static_cast<std::uint8_t>(notice.index()));  // the alternatives are in the order of Kind
    put(bytes, std::uint8_t{0});
    put(bytes, static_cast<std::uint16_t>(payload.size()));
    return bytes + payload;
}

void NoticeReader::add(std::span<const std::byte> bytes) {
    if (!broken_) bytes_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::optional<Notice> NoticeReader::next() {
    if (broken_ || bytes_.size() < kPrefixSize) return std::nullopt;
    const auto kind = static_cast<std::uint8_t>(bytes_[0]);
    std::uint16_t length = 0;
    std::memcpy(&length, bytes_.data() + 2, sizeof(length));
    if (length > kMaxNoticePayload) {
        broken_ = true;
        return std::nullopt;
    }
    if (bytes_.size() < kPrefixSize + length) return std::nullopt;
    auto notice = read_payload(kind, std::string_view(bytes_).substr(kPrefixSize, length));
    bytes_.erase(0, kPrefixSize + length);
    broken_ = !notice;
    return notice;
}

}  // namespace ddprun
