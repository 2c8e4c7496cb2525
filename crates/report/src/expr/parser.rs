//! Tokens to an expression, by recursive descent: `or` binds least, then `and`, `not`, comparisons, `+ -`, `* /`.

use super::lexer::{EXAMPLE, Kind, Token, tokens};
use super::{
    Aggregate, Arithmetic, ExprError, Expression, FIELDS, Field, Label, Node, Operator, Selector, Term,
};
use measure::results::{METRICS, Metric};

/// Parses an expression.
///
/// # Errors
/// [`ExprError`] with the column of the first thing that is wrong and what would be right.
pub fn parse(text: &str) -> Result<Expression, ExprError> {
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, depth: 0 };
    let root = parser.or()?;
    match parser.peek() {
        Kind::End => Ok(Expression { text: text.into(), root }),
        _ => Err(parser.unexpected("the expression should end here, or go on with `and` or `or`")),
    }
}

/// Parses the name of values alone, as in `throughput{frame=64}`.
///
/// # Errors
/// [`ExprError`] with the column of the first thing that is wrong and what would be right.
pub fn parse_values(text: &str) -> Result<Expression, ExprError> {
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, depth: 0 };
    let selector = parser.selector()?;
    match parser.peek() {
        Kind::End => Ok(Expression { text: text.into(), root: Node::Valid(selector) }),
        _ => Err(parser.unexpected("the values should end here: name one metric with its labels")),
    }
}

/// Deepest nesting of parentheses and `not`: far beyond any use, and far below what the stack holds.
const MAX_DEPTH: u32 = 100;

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: u32,
}

impl Parser<'_> {
    fn peek(&self) -> &Kind {
        &self.tokens[self.at].kind
    }

    fn start(&self) -> usize {
        self.tokens[self.at].span.start
    }

    /// End of the token before this one.
    fn end(&self) -> usize {
        self.tokens[self.at.saturating_sub(1)].span.end
    }

    /// The token, and on to the next; the end stays where it is.
    fn take(&mut self) -> Kind {
        let kind = self.tokens[self.at].kind.clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        kind
    }

    fn takes_sign(&mut self, sign: &str) -> bool {
        let is = matches!(self.peek(), Kind::Sign(s) if *s == sign);
        if is {
            self.take();
        }
        is
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let is = matches!(self.peek(), Kind::Word(w) if w == word);
        if is {
            self.take();
        }
        is
    }

    fn expect(&mut self, sign: &'static str, help: &str) -> Result<(), ExprError> {
        if self.takes_sign(sign) {
            Ok(())
        } else {
            Err(self.unexpected(&format!("`{sign}` should stand here: {help}")))
        }
    }

    fn unexpected(&self, help: &str) -> ExprError {
        let message = match self.peek() {
            Kind::End => "the expression ends too early".to_string(),
            Kind::Word(w) => format!("`{w}` cannot stand here"),
            Kind::Quoted(q) => format!("\"{q}\" cannot stand here"),
            Kind::Number(_) | Kind::Sign(_) => {
                format!("`{}` cannot stand here", &self.text[self.tokens[self.at].span.clone()])
            }
        };
        ExprError::at(self.text, self.start(), message, help)
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T, ExprError>) -> Result<T, ExprError> {
        if self.depth >= MAX_DEPTH {
            let help = format!("at most {MAX_DEPTH} levels of parentheses and `not`");
            return Err(ExprError::at(self.text, self.start(), "this is nested too deeply", help));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn or(&mut self) -> Result<Node, ExprError> {
        let mut node = self.and()?;
        while self.takes_word("or") {
            node = Node::Or(Box::new(node), Box::new(self.and()?));
        }
        Ok(node)
    }

    fn and(&mut self) -> Result<Node, ExprError> {
        let mut node = self.not()?;
        while self.takes_word("and") {
            node = Node::And(Box::new(node), Box::new(self.not()?));
        }
        Ok(node)
    }

    fn not(&mut self) -> Result<Node, ExprError> {
        if self.takes_word("not") {
            return Ok(Node::Not(Box::new(self.deeper(Self::not)?)));
        }
        if matches!(self.peek(), Kind::Word(w) if w == "valid") {
            let start = self.start();
            self.take();
            let labels = self.labels()?;
            return Ok(Node::Valid(Selector {
                metric: None,
                field: Field::Value,
                labels,
                span: start..self.end(),
            }));
        }
        if self.parenthesis_holds_condition() {
            self.take();
            let node = self.deeper(Self::or)?;
            self.expect(")", "it closes the parenthesis")?;
            return Ok(node);
        }
        self.comparison()
    }

    /// A parenthesis holds a condition or a sum: what stands in it, outside of braces, tells which.
    fn parenthesis_holds_condition(&self) -> bool {
        if !matches!(self.peek(), Kind::Sign("(")) {
            return false;
        }
        let (mut depth, mut in_braces) = (0, false);
        for token in &self.tokens[self.at..] {
            match &token.kind {
                Kind::Sign("(") => depth += 1,
                Kind::Sign(")") if depth == 1 => return false,
                Kind::Sign(")") => depth -= 1,
                Kind::Sign("{") => in_braces = true,
                Kind::Sign("}") => in_braces = false,
                Kind::Sign("<" | "<=" | ">" | ">=" | "==" | "!=") if !in_braces => return true,
                Kind::Word(w) if !in_braces && matches!(w.as_str(), "and" | "or" | "not" | "valid") => {
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    fn comparison(&mut self) -> Result<Node, ExprError> {
        let start = self.start();
        let left = self.sum()?;
        let operator = self.operator()?;
        let right = self.sum()?;
        if is_constant(&left) && is_constant(&right) {
            let help = "name a metric on one side, as in throughput < 0.95";
            return Err(ExprError::at(
                self.text,
                start,
                "this compares two numbers and looks at no point",
                help,
            ));
        }
        Ok(Node::Compare { left, operator, right, span: start..self.end() })
    }

    fn operator(&mut self) -> Result<Operator, ExprError> {
        const ALL: [(&str, Operator); 6] = [
            ("<", Operator::Less),
            ("<=", Operator::LessOrEqual),
            (">", Operator::Greater),
            (">=", Operator::GreaterOrEqual),
            ("==", Operator::Equal),
            ("!=", Operator::NotEqual),
        ];
        let found = ALL.into_iter().find(|(sign, _)| matches!(self.peek(), Kind::Sign(s) if s == sign));
        let Some((_, operator)) = found else {
            return Err(self.unexpected("a comparison should stand here: <, <=, >, >=, == or !="));
        };
        self.take();
        Ok(operator)
    }

    fn sum(&mut self) -> Result<Term, ExprError> {
        let mut term = self.product()?;
        loop {
            let operator = match self.peek() {
                Kind::Sign("+") => Arithmetic::Plus,
                Kind::Sign("-") => Arithmetic::Minus,
                _ => return Ok(term),
            };
            self.take();
            term = Term::Binary(operator, Box::new(term), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Term, ExprError> {
        let mut term = self.factor()?;
        loop {
            let operator = match self.peek() {
                Kind::Sign("*") => Arithmetic::Times,
                Kind::Sign("/") => Arithmetic::Over,
                _ => return Ok(term),
            };
            self.take();
            term = Term::Binary(operator, Box::new(term), Box::new(self.factor()?));
        }
    }

    fn factor(&mut self) -> Result<Term, ExprError> {
        match self.peek().clone() {
            Kind::Number(number) => {
                self.take();
                Ok(Term::Number(number))
            }
            Kind::Sign("-") => {
                self.take();
                Ok(Term::Negative(Box::new(self.deeper(Self::factor)?)))
            }
            Kind::Sign("(") => {
                self.take();
                let term = self.deeper(Self::sum)?;
                self.expect(")", "it closes the parenthesis")?;
                Ok(term)
            }
            Kind::Word(word) => self.named(&word),
            _ => Err(self.unexpected(EXAMPLE)),
        }
    }

    fn named(&mut self, word: &str) -> Result<Term, ExprError> {
        let aggregate = match word {
            "median" => Aggregate::Median,
            "mean" => Aggregate::Mean,
            "min" => Aggregate::Least,
            "max" => Aggregate::Most,
            _ => return Ok(Term::Points(self.selector()?)),
        };
        self.take();
        self.expect("(", &format!("{word}(throughput{{dut=nftables}})"))?;
        let selector = self.selector()?;
        self.expect(")", "it closes the parenthesis")?;
        Ok(Term::Aggregate(aggregate, selector))
    }

    fn selector(&mut self) -> Result<Selector, ExprError> {
        let start = self.start();
        let Kind::Word(name) = self.peek().clone() else {
            return Err(self.unexpected("a metric should stand here, as in median(throughput)"));
        };
        let Some(metric) = Metric::named(&name) else {
            let names: Vec<&str> = METRICS.iter().map(|(_, row)| row.key).collect();
            let help = format!("metrics are {}; conditions on points begin with `valid`", names.join(", "));
            return Err(ExprError::at(self.text, start, format!("there is no metric `{name}`"), help));
        };
        self.take();
        let field = if self.takes_sign(".") { self.field()? } else { Field::Value };
        let labels = self.labels()?;
        Ok(Selector { metric: Some(metric), field, labels, span: start..self.end() })
    }

    fn field(&mut self) -> Result<Field, ExprError> {
        let start = self.start();
        let names: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
        let help = format!("figures of a point are {}", names.join(", "));
        let Kind::Word(name) = self.peek().clone() else { return Err(self.unexpected(&help)) };
        let found = FIELDS.iter().find(|(n, _)| *n == name).map(|(_, field)| *field);
        let field = found.ok_or_else(|| {
            ExprError::at(self.text, start, format!("a point has no figure `{name}`"), help)
        })?;
        self.take();
        Ok(field)
    }

    fn labels(&mut self) -> Result<Vec<Label>, ExprError> {
        let mut labels = Vec::new();
        if !self.takes_sign("{") {
            return Ok(labels);
        }
        loop {
            labels.push(self.label()?);
            if self.takes_sign("}") {
                return Ok(labels);
            }
            self.expect(",", "labels are separated by commas and end with `}`")?;
        }
    }

    fn label(&mut self) -> Result<Label, ExprError> {
        let start = self.start();
        let help = "a label looks like dut=nftables or frame!=64";
        let Kind::Word(name) = self.peek().clone() else { return Err(self.unexpected(help)) };
        self.take();
        let wanted = match self.peek() {
            Kind::Sign("=" | "==") => true,
            Kind::Sign("!=") => false,
            _ => return Err(self.unexpected(help)),
        };
        self.take();
        let (Kind::Word(value) | Kind::Quoted(value)) = self.peek().clone() else {
            return Err(self.unexpected(help));
        };
        self.take();
        Ok(Label { name, value, wanted, span: start..self.end() })
    }
}

fn is_constant(term: &Term) -> bool {
    match term {
        Term::Number(_) => true,
        Term::Points(_) | Term::Aggregate(..) => false,
        Term::Negative(inner) => is_constant(inner),
        Term::Binary(_, left, right) => is_constant(left) && is_constant(right),
    }
}
