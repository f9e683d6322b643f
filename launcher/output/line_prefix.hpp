// LinePrefix is what stands before a worker's line on the console, compiled from a template. Pure values.
//
// Two templates are understood: our own (`--prefix`, `{host}:{rank}: `) and torchrun's
// (`--log-line-prefix-template`, `[${role_name}${rank}]: `, the rules of Python's string.Template with
// safe_substitute).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ddprun::inline launch {

// LineOrigin says whose line it is.
struct LineOrigin {
    std::string host;
    std::string role;
    std::string stream;  // "stdout" or "stderr"
    int rank = 0;
    int local_rank = 0;
};

class LinePrefix {
  public:
    LinePrefix() = default;  // nothing

    // Reads `{host} {rank} {local_rank} {role} {time} {stream}`; `{{` and `}}` are the braces themselves. Otherwise
    // what is wrong, in words that go behind the flag and its value.
    static std::variant<LinePrefix, std::string> parse(std::string_view text);

    // Reads `${role_name} ${rank} ${local_rank} ${hostname}`, with or without braces; `$$` is a dollar sign and
    // everything else stays as it is.
    static LinePrefix parse_dollar(std::string_view text);

    // Makes torchrun's header of tee'd lines, without a blank behind it: `[<role><local_rank>]:`.
    static LinePrefix tee_header();

    bool empty() const { return pieces_.empty(); }
    bool uses_time() const;

    // Fills in everything but the time, so that render() has little to do.
    LinePrefix with(const LineOrigin& origin) const;

    // Makes the text; `time` stands for {time}. Fields that with() has not filled in are empty.
    std::string render(std::string_view time) const;

    bool operator==(const LinePrefix&) const = default;

  private:
    enum class Field { literal, host, rank, local_rank, role, time, stream };
    struct Piece {
        Field field = Field::literal;
        std::string text;
        bool operator==(const Piece&) const = default;
    };

    enum class Grammar { ours, torchruns };

    static std::optional<Field> field_named(std::string_view name, Grammar grammar);
    static std::string value(const Piece& piece, const LineOrigin& origin);
    void add_text(std::string_view text);
    void add_field(Field field) { pieces_.push_back({field, ""}); }

    std::vector<Piece> pieces_;
};

}  // namespace ddprun::inline launch
