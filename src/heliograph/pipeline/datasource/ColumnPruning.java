import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Sum;
import org.apache.spark.sql.catalyst.plans.QueryPlan;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructType;
import scala.Product;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/**
 * Has a batch read of the format heliograph give only the columns that its query uses.
 *
 * Spark names these columns to its own sources, and not to sources in Python. This rule runs after Spark's and puts scans of
 * fewer columns in the place of theirs: below a projection or an aggregate, perhaps with conditions in between, the
 * columns that these name, or a single small one.
 *
 * A count of all rows becomes a sum over a scan that gives how many rows each of its partitions has.
 */
public class ColumnPruning extends Rule {
  private static final String FORMAT = "heliograph";
  private static final String ROW_COUNT = "$rows";  // as schema.py has it

  // Scans by the source that Spark has made for a DataFrame, then by their columns: each plans its read once.
  private final Map scans = Collections.synchronizedMap(new WeakHashMap());

  public TreeNode apply(TreeNode plan) {
    try {
      return applied(plan);
    } catch (Exception error) {
      return plan;  // a version of Spark that is built otherwise reads all columns
    }
  }

  private TreeNode applied(TreeNode plan) throws ReflectiveOperationException {
    if (plan instanceof Aggregate) {
      TreeNode counted = counted((Aggregate) plan);
      if (counted != null) {
        return counted;
      }
    }
    if (plan instanceof Project || plan instanceof Aggregate) {
      TreeNode child = (TreeNode) CollectionConverters.asJava(plan.children()).get(0);
      List used = new ArrayList();
      used.add(((QueryPlan) plan).references());
      TreeNode fewer = below(child, used);
      if (fewer != null) {
        return withChild(plan, fewer);
      }
    }
    return plan.mapChildren(new AbstractFunction1() {
      public Object apply(Object child) {
        return ColumnPruning.this.apply((TreeNode) child);
      }
    });
  }

  private TreeNode counted(Aggregate plan) throws ReflectiveOperationException {
    if (!plan.groupingExpressions().isEmpty() || !hasRowCountsOnly(plan.aggregateExpressions())) {
      return null;
    }
    TreeNode child = plan.child();
    while (child instanceof Project) {  // it has as many rows as what is below
      child = ((Project) child).child();
    }
    if (!(child instanceof DataSourceV2ScanRelation)) {
      return null;
    }
    DataSourceV2ScanRelation relation = (DataSourceV2ScanRelation) child;
    if (!isOurs(relation.scan())) {
      return null;
    }
    Scan scan = scanOf((PythonScan) relation.scan(), new StructType().add(ROW_COUNT, DataTypes.LongType));
    if (scan == null) {
      return null;
    }
    AttributeReference rows = new AttributeReference(
        ROW_COUNT, DataTypes.LongType, true, Metadata.empty(), NamedExpression$.MODULE$.newExprId(), seq(new ArrayList()));
    List sums = new ArrayList();
    for (Iterator each = CollectionConverters.asJava(plan.aggregateExpressions()).iterator(); each.hasNext();) {
      sums.add(summed((TreeNode) each.next(), rows));
    }
    List output = new ArrayList();
    output.add(rows);
    Map parts = new IdentityHashMap();
    parts.put(plan.aggregateExpressions(), seq(sums));
    parts.put(plan.child(), withScan(relation, scan, output));
    return copied(plan, parts);
  }

  private static boolean hasRowCountsOnly(Seq expressions) {
    for (Iterator each = CollectionConverters.asJava(expressions).iterator(); each.hasNext();) {
      TreeNode expression = (TreeNode) each.next();
      if (!(expression instanceof Alias) || !isRowCount(((Alias) expression).child())) {
        return false;
      }
    }
    return !expressions.isEmpty();
  }

  private static boolean isRowCount(Object expression) {
    if (!(expression instanceof AggregateExpression)) {
      return false;
    }
    AggregateExpression aggregate = (AggregateExpression) expression;
    if (!(aggregate.aggregateFunction() instanceof Count) || aggregate.isDistinct() || aggregate.filter().isDefined()) {
      return false;
    }
    for (Iterator each = CollectionConverters.asJava(aggregate.aggregateFunction().children()).iterator(); each.hasNext();) {
      Object counted = each.next();
      if (!(counted instanceof Literal) || ((Literal) counted).value() == null) {
        return false;
      }
    }
    return true;
  }

  private static TreeNode summed(TreeNode count, AttributeReference rows) {
    List either = new ArrayList();  // where there is no partition, the sum is null
    either.add(new Sum(rows).toAggregateExpression());
    either.add(new Literal(Long.valueOf(0), DataTypes.LongType));
    return withChild(count, new Coalesce(seq(either)));
  }

  private TreeNode below(TreeNode plan, List used) throws ReflectiveOperationException {
    if (plan instanceof Filter) {
      used.add(((QueryPlan) plan).references());
      TreeNode fewer = below((TreeNode) CollectionConverters.asJava(plan.children()).get(0), used);
      return fewer == null ? null : withChild(plan, fewer);
    }
    if (!(plan instanceof DataSourceV2ScanRelation)) {
      return null;
    }
    return pruned((DataSourceV2ScanRelation) plan, used);
  }

  private TreeNode pruned(DataSourceV2ScanRelation relation, List used) throws ReflectiveOperationException {
    Scan scan = relation.scan();
    if (!isOurs(scan)) {
      return null;
    }
    List all = CollectionConverters.asJava(relation.output());
    List kept = new ArrayList();
    AttributeReference smallest = null;
    for (Iterator each = all.iterator(); each.hasNext();) {
      AttributeReference column = (AttributeReference) each.next();
      if (isUsed(column, used)) {
        kept.add(column);
      }
      if (smallest == null || column.dataType().defaultSize() < smallest.dataType().defaultSize()) {
        smallest = column;
      }
    }
    if (kept.isEmpty() && smallest != null) {
      kept.add(smallest);
    }
    if (kept.size() == all.size()) {
      return null;
    }
    StructType schema = new StructType();
    for (Iterator each = kept.iterator(); each.hasNext();) {
      schema = schema.add(scan.readSchema().apply(((AttributeReference) each.next()).name()));
    }
    Scan fewer = scanOf((PythonScan) scan, schema);
    return fewer == null ? null : withScan(relation, fewer, kept);
  }

  private static boolean isOurs(Scan scan) throws ReflectiveOperationException {
    if (!(scan instanceof PythonScan) || !FORMAT.equalsIgnoreCase((String) field(scan, "shortName"))) {
      return false;
    }
    // Where payloads decide which rows there are, they must be decoded to what the query was given.
    Object mode = ((Map) field(scan, "options")).get("mode");
    return mode == null || "PERMISSIVE".equalsIgnoreCase((String) mode);
  }

  private static TreeNode withScan(DataSourceV2ScanRelation relation, Scan scan, List output) {
    Map parts = new IdentityHashMap();
    parts.put(relation.scan(), scan);
    parts.put(relation.output(), seq(output));
    return copied(relation, parts);
  }

  private Scan scanOf(PythonScan scan, StructType schema) throws ReflectiveOperationException {
    java.lang.reflect.Constructor constructor = PythonScan.class.getConstructors()[0];
    boolean hasFilters = constructor.getParameterCount() == 5;
    if (hasFilters && ((Object[]) field(scan, "supportedFilters")).length > 0) {
      return null;  // that read is planned already
    }
    PythonDataSourceV2 source = (PythonDataSourceV2) field(scan, "ds");
    Map known = (Map) scans.get(source);
    if (known == null) {
      known = Collections.synchronizedMap(new HashMap());
      scans.put(source, known);
    }
    Scan found = (Scan) known.get(schema);
    if (found == null) {
      PythonDataSourceV2 own = new PythonDataSourceV2();
      String name = (String) field(scan, "shortName");
      own.setShortName(name);
      Field made = PythonDataSourceV2.class.getDeclaredField("dataSourceInPython");
      made.setAccessible(true);
      made.set(own, made.get(source));
      Object options = field(scan, "options");
      Object[] arguments = hasFilters
          ? new Object[] {own, name, schema, options, field(scan, "supportedFilters")}
          : new Object[] {own, name, schema, options};
      found = (Scan) constructor.newInstance(arguments);
      known.put(schema, found);
    }
    return found;
  }

  private static boolean isUsed(AttributeReference column, List used) {
    for (Iterator each = used.iterator(); each.hasNext();) {
      if (((AttributeSet) each.next()).contains(column)) {
        return true;
      }
    }
    return false;
  }

  private static TreeNode withChild(TreeNode plan, TreeNode child) {
    List children = new ArrayList();
    children.add(child);
    return plan.withNewChildren(seq(children));
  }

  private static TreeNode copied(TreeNode plan, Map parts) {
    Product product = (Product) plan;
    Object[] made = new Object[product.productArity()];
    for (int at = 0; at < made.length; at++) {
      Object part = product.productElement(at);
      made[at] = parts.containsKey(part) ? parts.get(part) : part;
    }
    return plan.makeCopy(made);
  }

  private static Seq seq(List list) {
    return CollectionConverters.asScala(list).toSeq();
  }

  private static Object field(Object of, String name) throws ReflectiveOperationException {
    Field found = of.getClass().getDeclaredField(name);
    found.setAccessible(true);
    return found.get(of);
  }
}
